// A table of /proc, read line by line as it comes: other users decide how large it is.
#pragma once

#include <functional>
#include <string_view>

namespace stoker::os {

// Calls `each` for every line, until it returns false. A line of more than 64 KiB is passed over.
// False: the table could not be read to its end.
bool read_table(const char* path, const std::function<bool(std::string_view line)>& each);

}  // namespace stoker::os
