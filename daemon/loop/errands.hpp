// Errands: slow questions of requests (RUN.yaml and its world, node names, a run's folders, test
// alerts), each kind on a thread of its own, so that a folder that does not answer holds up only
// what asks for it.
#pragma once

#include <functional>
#include <string>

#include "common/lanes.hpp"

namespace stoker::daemon {

// Used by the loop's thread; jobs may use what outlives stop().
class Errands {
 public:
  ~Errands() { stop(); }

  // Behind the jobs of this lane.
  void post(const std::string& lane, std::function<void()> job);
  // Begins nothing more, and waits for what runs; not for a job that does not come back.
  void stop();
  // A thread of this process may not have come back: end by _exit(2), not by returning from main().
  static bool left_behind();

 private:
  Lanes<bool> lanes_{[] {}};
  std::uint64_t last_ = 0;
};

}  // namespace stoker::daemon
