// SchedulerObserver: asks one scheduler again and again on its own thread and turns the difference
// to the answer before into events. Fast while something is on its way, slow when nothing is, at
// once when logs or agents say that a job is ending; a failed answer proves nothing, a few in a row
// are reported as SchedulerBlind.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "core/engine/engine.hpp"
#include "core/engine/ports.hpp"
#include "core/engine/view_diff.hpp"

namespace stoker::daemon {

using core::ViewDiff;

struct ObserverPace {
  Duration idle;     // nothing on its way
  Duration active;   // a job waits, starts or ends
  Duration longest;  // after failures
  int failures_until_blind;
  Duration apart{};       // never closer than this, in any case
  double jitter = 0;      // share of a pause that is left to chance
  Duration hurried = 5s;  // after a sign that a job is ending; also closer than `apart`
  Duration each{};        // so much longer for each run that is asked for
};
// `slurm`: the shortest time between two looks at SLURM's queue; the others follow from it.
ObserverPace pace_of(core::SchedulerKind kind, Duration slurm = 15s);

// What decides when to ask next.
struct LastQuestion {
  Instant asked, answered;      // the last question
  int failures = 0;             // failed answers in a row
  bool active = false;          // a job waits, starts or ends
  bool kicked = false;          // ask as soon as it is allowed
  std::optional<Instant> sign;  // the newest one that a job is ending
  double chance = 0;            // 0 .. 1, drawn once a question
  std::size_t runs = 0;         // that it was about
};
// When the next question is due; the scheduler's own budget may still delay it. A sign makes it due
// now, and then with pauses that grow by a quarter of the time since the sign: a job that ends a
// minute after its sign is seen within 15 s, and a sign that comes to nothing costs some fifteen
// questions.
Instant next_question(const ObserverPace& pace, const LastQuestion& last);

// What all observers see, as one: the engine is blind until every scheduler that is asked answers.
// Any thread.
class CommonSight {
 public:
  using Post = std::function<void(std::vector<core::Input>)>;
  explicit CommonSight(Post post) : post_(std::move(post)) {}
  // What ViewDiff makes of one answer.
  void answered(const core::Scheduler& scheduler, bool good, std::vector<core::Input> inputs);
  // Nothing is asked of it any more: its blindness is no one's.
  void left(const core::Scheduler& scheduler);

 private:
  Post post_;
  std::mutex mutex_;
  std::set<const core::Scheduler*> blind_;
  bool said_ = false;
};

class SchedulerObserver {
 public:
  SchedulerObserver(core::Scheduler& scheduler, ObserverPace pace, CommonSight& sight);
  ~SchedulerObserver();

  // The runs to ask for; `active`: ask often. No runs: it asks nothing.
  void watch(std::vector<RunName> runs, bool active, std::vector<core::JobExpected> expected = {},
             std::vector<core::RunGrounds> grounds = {});
  // Ask soon: a submission or a cancellation was just made.
  void kick();
  // Logs or agents say that a job is ending or over.
  void hurry();
  void stop();
  // Answers so far (good or failed), for --once.
  [[nodiscard]] std::size_t answers() const;
  [[nodiscard]] bool blind() const;
  [[nodiscard]] bool asking() const;  // it has runs to ask for

 private:
  void work();
  void pause(std::unique_lock<std::mutex>& lock, LastQuestion last);
  RunName run_of(const Token& token) const;

  core::Scheduler& scheduler_;
  ObserverPace pace_;
  CommonSight& sight_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<RunName> runs_;
  std::vector<core::JobExpected> expected_;
  std::vector<core::RunGrounds> grounds_;
  bool active_ = false, kicked_ = false, stopping_ = false;
  std::optional<Instant> sign_;
  std::size_t answers_ = 0;
  int failures_ = 0;
  std::thread thread_;
};

}  // namespace stoker::daemon
