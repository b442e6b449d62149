// What a program said last, of the end of its output.
#pragma once

#include <string_view>

namespace stoker {

// The last line with a letter or digit, without control characters at its end: launchers close
// their messages with a rule ("-----", "====="), which is the same for every failure. Empty: no
// such line.
std::string_view last_line_of(std::string_view output);

}  // namespace stoker
