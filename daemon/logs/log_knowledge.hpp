// LogKnowledge: the patterns of a site's signature files and ours, compiled once for all runs that
// want the same. Vectorscan cannot be interrupted while it compiles, so a stop leaves it behind.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "diagnose/match/live_scan.hpp"

namespace stoker::daemon {

// Belongs to one thread, but for leave().
class LogKnowledge {
 public:
  struct Made {
    std::shared_ptr<const diagnose::Detector> detector;
    std::vector<std::string> wrong;
  };
  using Compile =
      std::function<Made(const std::vector<diagnose::SiteFile>& files, const std::string& cache)>;
  static Made make(const std::vector<diagnose::SiteFile>& files, const std::string& cache);

  // `at_once`: wait for the compilation (a second on a busy machine); else it is done beside.
  // `cache`: a folder for what was compiled, so that the next daemon need not; "" = none.
  explicit LogKnowledge(bool at_once = true, std::string cache = "", Compile compile = make);
  // Waits for what is being compiled, unless it was left.
  ~LogKnowledge();
  LogKnowledge(LogKnowledge&&) noexcept = default;
  LogKnowledge& operator=(LogKnowledge&&) = delete;

  // Null: not ready yet, or left. Files with mistakes are left out and named in `wrong`, a sentence
  // each.
  std::shared_ptr<const diagnose::Detector> with(const std::vector<std::string>& signatures,
                                                 std::vector<std::string>& wrong);
  // From any thread, for good: no one waits for a compilation any more, and none begins.
  void leave();
  // A thread of this process may still compile. It uses the program's data: end by _exit(2), not by
  // returning from main().
  static bool left_behind();

 private:
  struct Shared;
  bool at_once_;
  std::string cache_;
  Compile compile_;
  std::shared_ptr<Shared> shared_;              // with the threads that compile
  std::map<std::string, std::thread> threads_;  // by names and texts
};

}  // namespace stoker::daemon
