// SchedulerObserver: one question for all runs of a scheduler, edges only.
#include "daemon/loop/scheduler_observer.hpp"

#include <algorithm>
#include <set>

namespace stoker::daemon {

std::vector<core::Input> ViewDiff::good(const core::SchedulerView& view,
                                        const std::function<RunName(const Token&)>& run_of) {
  std::vector<core::Input> inputs;
  failures_ = 0;
  if (std::exchange(blind_, false)) inputs.push_back({{}, core::SchedulerSees{}, {}});
  for (const core::NodeSeen& node : view.nodes) {
    auto [known, fresh] = nodes_.try_emplace(node.node, node);
    if (!fresh && known->second == node) continue;
    known->second = node;
    inputs.push_back({{}, node, {}});
  }
  std::set<std::pair<Token, JobId>> present;
  for (const core::JobSeen& job : view.jobs) {
    const auto key = std::pair(job.token, job.job);
    present.insert(key);
    auto [known, fresh] = jobs_.try_emplace(key, job);
    if (!fresh && known->second == job) continue;
    known->second = job;
    if (const RunName run = run_of(job.token); !run.empty()) inputs.push_back({run, job, {}});
  }
  // Absence proves nothing; what the scheduler forgot is only forgotten here too.
  std::erase_if(jobs_, [&present](const auto& entry) { return !present.contains(entry.first); });
  return inputs;
}

std::vector<core::Input> ViewDiff::failed(const std::string& why) {
  ++failures_;
  if (blind_ || failures_ < limit_) return {};
  blind_ = true;
  return {{{}, core::SchedulerBlind{why}, {}}};
}

ObserverPace pace_of(core::SchedulerKind kind) {
  switch (kind) {
    case core::SchedulerKind::Local: return {1s, 500ms, 5s, 3};
    case core::SchedulerKind::Slurm: return {60s, 15s, 300s, 3};
  }
  STOKER_CHECK(false, "unknown scheduler kind");
}

SchedulerObserver::SchedulerObserver(core::Scheduler& scheduler, ObserverPace pace, Post post)
    : scheduler_(scheduler), pace_(pace), post_(std::move(post)), thread_([this] { work(); }) {}

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

void SchedulerObserver::watch(std::vector<RunName> runs, bool active) {
  {
    const std::scoped_lock lock(mutex_);
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

// The longest run name that the token begins with: <run>-<order>-<random>.
RunName SchedulerObserver::run_of(const Token& token) const {
  RunName best;
  for (const RunName& run : runs_)
    if (token.text.starts_with(run.text + "-") && run.text.size() > best.text.size()) best = run;
  return best;
}

void SchedulerObserver::work() {
  ViewDiff diff(pace_.failures_until_blind);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (runs_.empty()) {
      wake_.wait(lock);
      continue;
    }
    kicked_ = false;
    const std::vector<RunName> runs = runs_;
    lock.unlock();
    const auto view = scheduler_.observe(runs);
    lock.lock();
    auto inputs = view ? diff.good(*view, [this](const Token& t) { return run_of(t); })
                       : diff.failed(view.error().message());
    ++answers_;
    failures_ = diff.failures();
    lock.unlock();
    if (!inputs.empty()) post_(std::move(inputs));
    lock.lock();
    Duration pause = active_ ? pace_.active : pace_.idle;
    for (int i = 0; i < diff.failures() && pause < pace_.longest; ++i) pause *= 2;
    pause = std::min(pause, std::max(pace_.longest, pace_.idle));
    wake_.wait_for(lock, pause, [this] { return stopping_ || kicked_; });
  }
}

}  // namespace stoker::daemon
