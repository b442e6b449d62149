// A file that a person names for output (`-o FILE`). What lies at that name may be no file: a
// device, a FIFO or the person's own link is written into, never replaced by a file.
#pragma once

#include <string>
#include <string_view>

#include "common/os/files.hpp"

namespace stoker::os {

// Nothing there, or a regular file: replace_file(). A character device or a FIFO, of ours or
// root's: it is written into. A symbolic link of ours or root's: what it leads to, which must be
// there; of one to an open file, as /dev/stdout is, that file is written on. A terminal gets no
// control characters. Error: another user's link or FIFO, a directory, a socket, a block device.
Status write_output(const std::string& path, std::string_view content, Durability durability,
                    unsigned mode = 0644);

}  // namespace stoker::os
