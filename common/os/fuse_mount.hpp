// On a FUSE mount a program shows the files, with any owner and mode it likes. Who started it is
// known to the kernel alone (`user_id`): where /etc/fuse.conf has user_allow_other, every user can
// mount a file over his own that looks like another's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace stoker::os {

// A line of /proc/self/mountinfo.
struct Mount {
  std::uint64_t id = 0;
  std::string place;  // where it is mounted, its escapes (\040) read
  bool is_fuse = false;
  std::optional<unsigned> user;  // of FUSE: who mounted it
};
std::optional<Mount> parse_mount(std::string_view line);

// Who can forge owner and mode of an open file (O_PATH will do): the user of the FUSE mount that it
// lies on, or "an unknown user". Empty: it is no such mount, or one of root's or our own.
std::string forger_of(int fd);

// The same as an error of own_files.hpp; `path` is for the message.
Status check_mount(int fd, const std::string& path);

}  // namespace stoker::os
