// A log that reserves space for its last lines: on a full disk it can still say that the disk is
// full.
#pragma once

#include <string>

#include "common/result.hpp"

namespace stoker::daemon {

class RoomyLog {
 public:
  explicit RoomyLog(std::string path) : path_(std::move(path)) {}
  // Takes room behind the log's end. Error: no space, or the file system cannot promise any.
  Status keep_room() const;
  Status append(const std::string& line) const;

 private:
  std::string path_;
};

}  // namespace stoker::daemon
