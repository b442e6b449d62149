// SchedulerObserver: asks one scheduler again and again on its own thread and turns the difference
// to the answer before into events. Fast while something is on its way, slow when nothing is; a
// failed answer proves nothing, a few in a row are reported as SchedulerBlind.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "core/engine.hpp"
#include "core/ports.hpp"
#include "core/view_diff.hpp"

namespace stoker::daemon {

using core::ViewDiff;

struct ObserverPace {
  Duration idle;     // nothing on its way
  Duration active;   // a job waits, starts or ends
  Duration longest;  // after failures
  int failures_until_blind;
  Duration apart{};   // never closer than this, in any case
  double jitter = 0;  // share of a pause that is left to chance
};
// `slurm`: the shortest time between two looks at SLURM's queue; the others follow from it.
ObserverPace pace_of(core::SchedulerKind kind, Duration slurm = 15s);

class SchedulerObserver {
 public:
  using Post = std::function<void(std::vector<core::Input>)>;
  SchedulerObserver(core::Scheduler& scheduler, ObserverPace pace, Post post);
  ~SchedulerObserver();

  // The runs to ask for; `active`: ask often. No runs: it asks nothing.
  void watch(std::vector<RunName> runs, bool active, std::vector<core::JobExpected> expected = {},
             std::vector<core::RunGrounds> grounds = {});
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
  std::vector<core::JobExpected> expected_;
  std::vector<core::RunGrounds> grounds_;
  bool active_ = false, kicked_ = false, stopping_ = false;
  std::size_t answers_ = 0;
  int failures_ = 0;
  std::thread thread_;
};

}  // namespace stoker::daemon
