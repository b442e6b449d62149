// MountThread: sleeps in poll(2) over its eventfd and inotify until the next watcher is due.
#include "daemon/loop/mount_thread.hpp"

#include <algorithm>
#include <limits>
#include <poll.h>
#include <sys/eventfd.h>

#include "common/os/files.hpp"

namespace stoker::daemon {
namespace {

// Between two polls that hints ask for: a burst of writes is read once.
constexpr Duration kHintGap = 20ms;
constexpr Duration kLongestSleep = 5s;
// Watchers that are due within this time are polled together.
constexpr Duration kTogether = 50ms;

}  // namespace

MountThread::MountThread(core::Clock& clock, Post post, LogKnowledge knowledge)
    : clock_(clock),
      post_(std::move(post)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      knowledge_(std::move(knowledge)),
      thread_([this] { work(); }) {}

MountThread::~MountThread() {
  stop();
}

void MountThread::stop() {
  post([this] {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  });
  if (thread_.joinable()) thread_.join();
}

void MountThread::post(std::function<void()> job) {
  {
    const std::scoped_lock lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void MountThread::watch(const core::RunPolicy& policy, std::vector<core::Cursor> cursors) {
  post([this, policy, cursors = std::move(cursors)] {
    const auto system = os::file_system_of(policy.directory);
    const watch::RunWatchOptions options{policy, system && system->network};
    watchers_[policy.run] = {
        std::make_unique<watch::RunWatcher>(options, cursors),
        std::make_unique<LogWatch>(policy, options.network, cursors, knowledge_), 0};
    watchers_[policy.run].logs->set_generation(generations_[policy.run], clock_.now());
    watchers_[policy.run].watcher->wait_for(follows_[policy.run]);
  });
}

void MountThread::set_generation(const RunName& run, Generation live) {
  post([this, run, live] {
    generations_[run] = live;
    if (const auto found = watchers_.find(run); found != watchers_.end())
      found->second.logs->set_generation(live, clock_.now());
  });
}

void MountThread::set_follows(const RunName& run, std::vector<watch::Follow> follows) {
  post([this, run, follows = std::move(follows)] {
    follows_[run] = follows;
    if (const auto found = watchers_.find(run); found != watchers_.end())
      found->second.watcher->wait_for(follows);
  });
}

void MountThread::forget(const RunName& run, std::function<void()> done) {
  post([this, run, done = std::move(done)] {
    watchers_.erase(run);
    inotify_.watch(run.text, {});
    {
      const std::scoped_lock lock(mutex_);
      live_.erase(run);
    }
    done();
  });
}

void MountThread::flush(std::function<void(std::vector<core::Input>)> done) {
  post([this, done = std::move(done)] {
    std::vector<core::Input> inputs;
    for (auto& [run, watcher] : watchers_) {
      for (core::Input& input : watcher.poll(clock_.now())) inputs.push_back(std::move(input));
      for (core::Input& input : watcher.watcher->flush_digest()) inputs.push_back(std::move(input));
      watcher.logs->flush(clock_.now(), inputs);
    }
    done(std::move(inputs));
  });
}

Duration MountThread::busy_for() const {
  const std::scoped_lock lock(mutex_);
  return busy_since_ ? monotonic_now() - *busy_since_ : Duration::zero();
}
std::size_t MountThread::polls() const {
  const std::scoped_lock lock(mutex_);
  return polls_;
}
std::string MountThread::trouble() const {
  const std::scoped_lock lock(mutex_);
  return trouble_;
}

std::optional<watch::LiveBeat> MountThread::live(const RunName& run) const {
  const std::scoped_lock lock(mutex_);
  const auto found = live_.find(run);
  return found == live_.end() ? std::nullopt : std::optional(found->second);
}

std::size_t MountThread::silences(const RunName& run) const {
  const std::scoped_lock lock(mutex_);
  const auto found = silences_.find(run);
  return found == silences_.end() ? 0 : found->second;
}

// The agents' files are read first: what a rank printed before its end is then in main.log.
std::vector<core::Input> MountThread::Watched::poll(Instant now) {
  std::vector<core::Input> inputs = watcher->poll(now);
  logs->poll(now, inputs);
  return inputs;
}

Instant MountThread::Watched::next_poll(Instant now) const {
  return logs->more() ? now : watcher->next_poll();
}

void MountThread::set_busy(bool busy) {
  const std::scoped_lock lock(mutex_);
  if (busy)
    busy_since_ = monotonic_now();
  else
    busy_since_.reset();
}

bool MountThread::run_jobs() {
  std::vector<std::function<void()>> jobs;
  {
    const std::scoped_lock lock(mutex_);
    jobs.swap(jobs_);
  }
  for (const auto& job : jobs) {
    set_busy(true);
    job();
    set_busy(false);
  }
  const std::scoped_lock lock(mutex_);
  return !stopping_;
}

// Those whose time has come, and those with a hint.
void MountThread::poll_due(const std::set<std::string>& hinted) {
  const Instant now = clock_.now();
  std::vector<core::Input> inputs;
  std::vector<std::map<RunName, Watched>::iterator> polled;
  std::string trouble;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  set_busy(true);
  for (auto at = watchers_.begin(); at != watchers_.end(); ++at) {
    auto& [run, watcher] = *at;
    if (watcher.next_poll(now) <= now + kTogether || hinted.contains(run.text)) {
      for (core::Input& input : watcher.poll(now)) inputs.push_back(std::move(input));
      const auto folders = watcher.watcher->directories();
      watcher.watcher->set_hinted(inotify_.watch(run.text, folders) && !folders.empty());
      ++watcher.polls;
      polled.push_back(at);
    }
    least = std::min(least, watcher.polls);
    if (watcher.watcher->error()) trouble = watcher.watcher->error()->message();
  }
  set_busy(false);
  if (!polled.empty()) last_poll_ = now;
  {
    const std::scoped_lock lock(mutex_);
    polls_ = watchers_.empty() ? polls_ + 1 : least;
    trouble_ = std::move(trouble);
    for (const auto& at : polled) {
      if (auto live = at->second.watcher->live()) live_[at->first] = std::move(*live);
      silences_[at->first] = at->second.logs->silences();
    }
  }
  if (!inputs.empty()) post_(std::move(inputs));
}

void MountThread::wait_until(Instant due) {
  const Duration left = std::clamp<Duration>(due - clock_.now(), Duration::zero(), kLongestSleep);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec timeout{seconds.count(), (left - seconds).count()};
  pollfd fds[2] = {{wake_.get(), POLLIN, 0}, {inotify_.fd(), POLLIN, 0}};
  ::ppoll(fds, 2, &timeout, nullptr);
  std::uint64_t count = 0;
  [[maybe_unused]] const auto drained = ::read(wake_.get(), &count, sizeof count);
}

void MountThread::work() {
  for (std::set<std::string> hinted; run_jobs();) {
    if (!hinted.empty() && clock_.now() - last_poll_ < kHintGap) {
      wait_until(last_poll_ + kHintGap);
    } else {
      poll_due(hinted);
      Instant due = clock_.now() + kLongestSleep;
      for (const auto& [run, watcher] : watchers_)
        due = std::min(due, watcher.next_poll(clock_.now()));
      wait_until(due);
      hinted.clear();
    }
    hinted.merge(inotify_.drain());
  }
}

}  // namespace stoker::daemon
