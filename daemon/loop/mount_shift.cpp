// Sleeps in poll(2) over its eventfd and inotify until the next watcher is due.
#include "daemon/loop/mount_shift.hpp"

#include <algorithm>
#include <atomic>
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
constexpr Duration kLastWait = 10s;  // for what it is at when it is to end
constexpr Duration kLook = 20ms;

std::atomic<int> left_behind_count = 0;

}  // namespace

void PassedOver::add(const RunPart& part) {
  const std::scoped_lock lock(mutex_);
  parts_.insert(part);
}

void PassedOver::remove(const RunPart& part) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = parts_.find(part); found != parts_.end()) parts_.erase(found);
}

bool PassedOver::contains(const RunPart& part) const {
  const std::scoped_lock lock(mutex_);
  return parts_.contains(part);
}

std::size_t PassedOver::size() const {
  const std::scoped_lock lock(mutex_);
  return parts_.size();
}

std::size_t PassedOver::size(watch::Part part) const {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      parts_.begin(), parts_.end(), [part](const RunPart& one) { return one.part == part; }));
}

MountShift::MountShift(core::Clock& clock, Post post, LogKnowledge knowledge,
                       std::shared_ptr<PassedOver> passed_over)
    : clock_(clock),
      post_(std::move(post)),
      passed_over_(std::move(passed_over)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      knowledge_(std::move(knowledge)) {}

MountShift::~MountShift() {
  if (thread_.joinable()) thread_.detach();  // the thread's own hold on it was the last one
}

void MountShift::begin() {
  thread_ = std::thread([self = shared_from_this()] { self->work(); });
}

void MountShift::post(Job job) {
  {
    const std::scoped_lock lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void MountShift::stop() {
  if (!thread_.joinable()) return;  // it has ended, or was left behind
  post({[](MountShift& self) {
          const std::scoped_lock lock(self.mutex_);
          self.stopping_ = true;
        },
        {}});
  for (;; std::this_thread::sleep_for(kLook)) {
    const auto busy = at();
    const std::scoped_lock lock(mutex_);
    if (stopping_) break;
    if (!busy || busy->second < kLastWait) continue;
    abandoned_ = true;
    if (at_) left_at_ = at_->first;
    ++left_behind_count;
    thread_.detach();
    return;
  }
  if (thread_.joinable()) thread_.join();
}

std::optional<MountShift::Left> MountShift::abandon(
    const std::function<bool(const RunPart&, Duration)>& is_stuck) {
  const std::scoped_lock lock(mutex_);
  if (!at_ || at_->first.is_of_daemon() || abandoned_) return std::nullopt;
  const Duration since = monotonic_now() - at_->second;
  if (!is_stuck(at_->first, since)) return std::nullopt;
  abandoned_ = true;
  left_at_ = at_->first;
  passed_over_->add(*left_at_);
  ++left_behind_count;
  thread_.detach();
  std::erase_if(jobs_, [this](const Job& job) { return job.part == *left_at_; });
  return Left{*left_at_, since, std::exchange(jobs_, {})};
}

bool MountShift::left_behind() {
  return left_behind_count > 0;
}

bool MountShift::abandoned() const {
  const std::scoped_lock lock(mutex_);
  return abandoned_;
}

std::optional<std::pair<RunPart, Duration>> MountShift::at() const {
  const std::scoped_lock lock(mutex_);
  if (!at_) return std::nullopt;
  return std::pair(at_->first, Duration(monotonic_now() - at_->second));
}

std::size_t MountShift::polls() const {
  const std::scoped_lock lock(mutex_);
  return polls_;
}

std::string MountShift::trouble() const {
  const std::scoped_lock lock(mutex_);
  return trouble_;
}

std::optional<watch::LiveBeat> MountShift::live(const RunName& run) const {
  const std::scoped_lock lock(mutex_);
  const auto found = live_.find(run);
  return found == live_.end() ? std::nullopt : std::optional(found->second);
}

std::size_t MountShift::silences(const RunName& run) const {
  const std::scoped_lock lock(mutex_);
  const auto found = silences_.find(run);
  return found == silences_.end() ? 0 : found->second;
}

void MountShift::watch(const core::RunPolicy& policy, const std::vector<core::Cursor>& cursors) {
  const auto system = os::file_system_of(policy.directory);
  const watch::RunWatchOptions options{policy, system && system->network};
  Watched& watched = watchers_[policy.run];
  watched = {std::make_unique<watch::RunWatcher>(options, cursors),
             std::make_unique<LogWatch>(policy, options.network, cursors, knowledge_), 0};
  watched.logs->set_generation(generations_[policy.run], clock_.now());
  watched.watcher->wait_for(follows_[policy.run]);
  due_ = {};
}

void MountShift::forget(const RunName& run) {
  watchers_.erase(run);
  inotify_.watch(run.text, {});
  const std::scoped_lock lock(mutex_);
  live_.erase(run);
}

void MountShift::set_generation(const RunName& run, Generation live) {
  generations_[run] = live;
  due_ = {};
  if (const auto found = watchers_.find(run); found != watchers_.end())
    found->second.logs->set_generation(live, clock_.now());
}

void MountShift::set_follows(const RunName& run, const std::vector<watch::Follow>& follows) {
  follows_[run] = follows;
  due_ = {};
  if (const auto found = watchers_.find(run); found != watchers_.end())
    found->second.watcher->wait_for(follows);
}

std::vector<core::Input> MountShift::flush() {
  std::vector<core::Input> inputs;
  for (auto& watcher : watchers_) {
    const RunName& run = watcher.first;
    auto& watched = watcher.second;
    if (abandoned()) return {};
    poll(run, watched, clock_.now(), inputs);
    for (core::Input& input : watched.watcher->flush_digest()) inputs.push_back(std::move(input));
    watched.logs->flush(clock_.now(), inputs, [&](watch::Part part) { return enter({run, part}); });
  }
  return inputs;
}

// The agents' files are read first: what a rank printed before its end is then in main.log.
void MountShift::poll(const RunName& run, Watched& watched, Instant now,
                      std::vector<core::Input>& out) {
  const watch::Gate gate = [&](watch::Part part) { return enter({run, part}); };
  std::vector<core::Input> inputs = watched.watcher->poll(now, wall_now(), gate);
  watched.logs->poll(now, inputs, gate);
  for (core::Input& input : inputs) out.push_back(std::move(input));
  enter({run, watch::Part::Own});
}

Instant MountShift::next_poll(const Watched& watched, Instant now) {
  return watched.logs->more() ? now : watched.watcher->next_poll();
}

// Whether it is to be read. What takes over meanwhile passes over it.
bool MountShift::enter(const RunPart& part) {
  if (passed_over_->contains(part)) return false;
  const std::scoped_lock lock(mutex_);
  at_ = {part, monotonic_now()};
  return !abandoned_;
}

void MountShift::rest() {
  const std::scoped_lock lock(mutex_);
  at_.reset();
}

// Those that were posted by now.
bool MountShift::run_jobs() {
  std::unique_lock lock(mutex_);
  for (std::size_t left = jobs_.size(); left > 0 && !abandoned_; --left) {
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    if (enter(job.part)) job.work(*this);
    rest();
    lock.lock();
  }
  return !stopping_ && !abandoned_;
}

// Those whose time has come, and those with a hint.
void MountShift::poll_due(const std::set<std::string>& hinted) {
  const Instant now = clock_.now();
  std::vector<core::Input> inputs;
  std::vector<std::map<RunName, Watched>::iterator> polled;
  std::string trouble;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (auto at = watchers_.begin(); at != watchers_.end() && !abandoned(); ++at) {
    auto& [run, watched] = *at;
    if (next_poll(watched, now) <= now + kTogether || hinted.contains(run.text)) {
      poll(run, watched, now, inputs);
      const auto folders = watched.watcher->directories();
      watched.watcher->set_hinted(inotify_.watch(run.text, folders) && !folders.empty());
      ++watched.polls;
      polled.push_back(at);
    }
    least = std::min(least, watched.polls);
    if (watched.watcher->error()) trouble = watched.watcher->error()->message();
  }
  rest();
  if (!polled.empty()) last_poll_ = now;
  {
    const std::scoped_lock lock(mutex_);
    if (abandoned_) return;
    polls_ = watchers_.empty() ? polls_ + 1 : least;
    trouble_ = std::move(trouble);
    for (const auto& at : polled) {
      if (auto live = at->second.watcher->live()) live_[at->first] = std::move(*live);
      silences_[at->first] = at->second.logs->silences();
    }
  }
  if (!inputs.empty()) post_(std::move(inputs));
}

void MountShift::wait_until(Instant due) {
  const Duration left = std::clamp<Duration>(due - clock_.now(), Duration::zero(), kLongestSleep);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec timeout{seconds.count(), (left - seconds).count()};
  pollfd fds[2] = {{wake_.get(), POLLIN, 0}, {inotify_.fd(), POLLIN, 0}};
  ::ppoll(fds, 2, &timeout, nullptr);
  std::uint64_t count = 0;
  [[maybe_unused]] const auto drained = ::read(wake_.get(), &count, sizeof count);
}

void MountShift::work() {
  take_turns();
  const std::scoped_lock lock(mutex_);
  if (!left_at_) return;
  passed_over_->remove(*left_at_);
  --left_behind_count;
}

Instant MountShift::next_due() const {
  const Instant now = clock_.now();
  Instant due = now + kLongestSleep;
  for (const auto& [run, watched] : watchers_) due = std::min(due, next_poll(watched, now));
  return due;
}

// A thousand runs have many jobs a second: those alone are no reason to look at every watcher.
void MountShift::take_turns() {
  for (std::set<std::string> hinted; run_jobs();) {
    const Instant now = clock_.now();
    if (!hinted.empty() && now - last_poll_ < kHintGap) {
      wait_until(last_poll_ + kHintGap);
    } else if (hinted.empty() && now + kTogether < due_ && !watchers_.empty()) {
      wait_until(due_);
    } else {
      poll_due(hinted);
      if (abandoned()) return;
      due_ = next_due();
      wait_until(due_);
      hinted.clear();
    }
    hinted.merge(inotify_.drain());
  }
}

}  // namespace stoker::daemon
