// Which of the files that watch.logs and watch.kernel_logs name are followed. Each takes a
// descriptor, and who may write in their folder may make any number of them: so many are followed
// that the daemon keeps descriptors for everything else, our own user's first, then the newest.
#pragma once

#include <string>
#include <vector>

#include "core/engine/engine.hpp"

namespace stoker::daemon {

struct FoundLog {
  std::string path;
  std::string pattern;  // that gave it
  bool kernel = false;
};

struct LogChoice {
  std::vector<FoundLog> logs;   // to follow
  std::size_t found = 0;        // with those that are too many
  std::vector<Error> too_wide;  // patterns that were given up
};

// The pattern with a star for each %N.
std::string with_star(std::string pattern);

LogChoice choose_logs(const std::vector<std::string>& logs,
                      const std::vector<std::string>& kernel_logs, std::size_t room);

// How many logs one run follows: of all that the runs of this process follow.
class LogRoom {
 public:
  LogRoom() = default;
  ~LogRoom() { take(0); }
  LogRoom(const LogRoom&) = delete;
  LogRoom& operator=(const LogRoom&) = delete;

  // A quarter of the limit of descriptors, and all runs together a half; at most 4096.
  [[nodiscard]] std::size_t most() const;
  void take(std::size_t logs);

 private:
  std::size_t taken_ = 0;
};

}  // namespace stoker::daemon
