// SchedulerObserver: one question for all runs of a scheduler, edges only.
#include "daemon/loop/scheduler_observer.hpp"

#include <algorithm>
#include <random>

namespace stoker::daemon {
namespace {

double chance() {  // 0 .. 1; decides nothing but when to look again
  thread_local std::minstd_rand random{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(random);
}

}  // namespace

ObserverPace pace_of(core::SchedulerKind kind, Duration slurm) {
  switch (kind) {
    case core::SchedulerKind::Local: return {1s, 500ms, 5s, 3, {}, 0, 5s, 2ms};
    case core::SchedulerKind::Slurm: {
      const Duration hurried = std::min(slurm, std::max<Duration>(1s, slurm / 3));
      return {4 * slurm, slurm, 20 * slurm, 3, slurm, 0.1, hurried};
    }
  }
  STOKER_CHECK(false, "unknown scheduler kind");
}

Instant next_question(const ObserverPace& pace, const LastQuestion& last) {
  Duration pause = last.active ? pace.active : pace.idle;
  Duration apart = pace.apart;
  for (int i = 0; i < last.failures && pause < pace.longest; ++i) pause *= 2;
  pause = std::min(pause, std::max(pace.longest, pace.idle)) + last.runs * pace.each;
  if (last.sign && last.failures == 0) {
    const Duration since = std::max<Duration>(last.answered - *last.sign, Duration{});
    const Duration soon = std::max(pace.hurried, since / 4);
    pause = std::min(pause, soon);
    apart = std::min(apart, soon);
  }
  // A slow good answer is answered by patience; jitter keeps many daemons apart.
  const Duration took = last.answered - last.asked;
  if (last.failures == 0 && pace.apart > Duration{}) pause = std::max(pause, 5 * took);
  pause = std::chrono::duration_cast<Duration>(pause * (1 + pace.jitter * last.chance));
  const bool at_once = last.kicked || (last.sign && *last.sign > last.asked);
  return std::max(last.asked + apart, at_once ? last.answered : last.answered + pause);
}

void CommonSight::answered(const core::Scheduler& scheduler, bool good,
                           std::vector<core::Input> inputs) {
  const std::scoped_lock lock(mutex_);  // held until it is posted: the order is the engine's
  if (good) {
    std::erase_if(inputs, [](const core::Input& input) {
      return std::holds_alternative<core::SchedulerSees>(input.body);
    });
    blind_.erase(&scheduler);
    if (blind_.empty() && std::exchange(said_, false))
      inputs.insert(inputs.begin(), {{}, core::SchedulerSees{}, {}});
  } else if (!inputs.empty()) {
    blind_.insert(&scheduler);
    said_ = true;
  }
  if (!inputs.empty()) post_(std::move(inputs));
}

void CommonSight::left(const core::Scheduler& scheduler) {
  const std::scoped_lock lock(mutex_);
  blind_.erase(&scheduler);
}

SchedulerObserver::SchedulerObserver(core::Scheduler& scheduler, ObserverPace pace,
                                     CommonSight& sight)
    : scheduler_(scheduler), pace_(pace), sight_(sight), thread_([this] { work(); }) {}

SchedulerObserver::~SchedulerObserver() {
  stop();
}

void SchedulerObserver::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SchedulerObserver::watch(std::vector<RunName> runs, bool active,
                              std::vector<core::JobExpected> expected,
                              std::vector<core::RunGrounds> grounds) {
  {
    const std::scoped_lock lock(mutex_);
    grounds_ = std::move(grounds);
    expected_ = std::move(expected);
    if (runs != runs_ || (active && !active_)) kicked_ = true;
    runs_ = std::move(runs);
    active_ = active;
  }
  wake_.notify_all();
}

void SchedulerObserver::kick() {
  {
    const std::scoped_lock lock(mutex_);
    kicked_ = true;
  }
  wake_.notify_all();
}

void SchedulerObserver::hurry() {
  {
    const std::scoped_lock lock(mutex_);
    sign_ = monotonic_now();
  }
  wake_.notify_all();
}

std::size_t SchedulerObserver::answers() const {
  const std::scoped_lock lock(mutex_);
  return answers_;
}
bool SchedulerObserver::blind() const {
  const std::scoped_lock lock(mutex_);
  return failures_ > 0;
}

bool SchedulerObserver::asking() const {
  const std::scoped_lock lock(mutex_);
  return !runs_.empty();
}

// The longest run name that the token begins with: <run>-<order>-<random>, or of a follower
// <run>+<name>.<iteration>-<try>-<random>.
RunName SchedulerObserver::run_of(const Token& token) const {
  RunName best;
  for (const RunName& run : runs_)
    if ((token.text.starts_with(run.text + "-") || token.text.starts_with(run.text + "+")) &&
        run.text.size() > best.text.size())
      best = run;
  return best;
}

// Until the next question is due, which changes with what is learned meanwhile.
void SchedulerObserver::pause(std::unique_lock<std::mutex>& lock, LastQuestion last) {
  while (!stopping_ && !runs_.empty()) {
    last.active = active_;
    last.kicked = kicked_;
    last.sign = sign_;
    const Duration left = std::max(next_question(pace_, last) - monotonic_now(), scheduler_.rest());
    if (left <= Duration{}) return;
    wake_.wait_for(lock, left);
  }
}

void SchedulerObserver::work() {
  ViewDiff diff(pace_.failures_until_blind);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (runs_.empty()) {
      diff = ViewDiff(pace_.failures_until_blind);
      failures_ = 0;
      sight_.left(scheduler_);
      wake_.wait(lock);
      continue;
    }
    kicked_ = false;
    const std::vector<RunName> runs = runs_;
    const std::vector<core::JobExpected> expected = expected_;
    const std::vector<core::RunGrounds> grounds = grounds_;
    lock.unlock();
    const Instant asked = monotonic_now();
    scheduler_.expect(expected);
    scheduler_.guard(grounds);
    const auto view = scheduler_.observe(runs);
    lock.lock();
    auto inputs = view ? diff.good(*view, [this](const Token& t) { return run_of(t); })
                       : diff.failed(view.error().message());
    ++answers_;
    failures_ = diff.failures();
    lock.unlock();
    sight_.answered(scheduler_, view.has_value(), std::move(inputs));
    lock.lock();
    pause(lock, {asked, monotonic_now(), diff.failures(), {}, {}, {}, chance(), runs.size()});
  }
}

}  // namespace stoker::daemon
