// SchedulerObserver: asks one scheduler again and again on its own thread and turns the difference
// to the answer before into events. Fast while something is on its way, slow when nothing is; a
// failed answer proves nothing, a few in a row are told as SchedulerBlind.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "core/engine.hpp"
#include "core/ports.hpp"

namespace stoker::daemon {

// The difference between two answers, and blindness. Pure.
class ViewDiff {
 public:
  explicit ViewDiff(int failures_until_blind) : limit_(failures_until_blind) {}
  // `run_of` names the run of a token of ours ("" = of none that we know).
  std::vector<core::Input> good(const core::SchedulerView& view,
                                const std::function<RunName(const Token&)>& run_of);
  std::vector<core::Input> failed(const std::string& why);
  [[nodiscard]] int failures() const { return failures_; }

 private:
  int limit_;
  int failures_ = 0;
  bool blind_ = false;
  std::map<std::pair<Token, JobId>, core::JobSeen> jobs_;
  std::map<NodeName, core::NodeSeen> nodes_;
};

struct ObserverPace {
  Duration idle;     // nothing on its way
  Duration active;   // a job waits, starts or ends
  Duration longest;  // after failures
  int failures_until_blind;
};
ObserverPace pace_of(core::SchedulerKind kind);

class SchedulerObserver {
 public:
  using Post = std::function<void(std::vector<core::Input>)>;
  SchedulerObserver(core::Scheduler& scheduler, ObserverPace pace, Post post);
  ~SchedulerObserver();

  // The runs to ask for; `active`: ask often. No runs: it asks nothing.
  void watch(std::vector<RunName> runs, bool active);
  // Ask soon: a submission or a cancellation was just made.
  void kick();
  void stop();
  // Answers so far (good or failed), for --once.
  [[nodiscard]] std::size_t answers() const;
  [[nodiscard]] bool blind() const;
  [[nodiscard]] bool asking() const;  // it has runs to ask for

 private:
  void work();
  RunName run_of(const Token& token) const;

  core::Scheduler& scheduler_;
  ObserverPace pace_;
  Post post_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<RunName> runs_;
  bool active_ = false, kicked_ = false, stopping_ = false;
  std::size_t answers_ = 0;
  int failures_ = 0;
  std::thread thread_;
};

}  // namespace stoker::daemon
