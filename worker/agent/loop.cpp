// The poll(2) loop. A turn: descriptors in order of their number, then posted tasks, then timers.
#include "worker/agent/loop.hpp"

#include <algorithm>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace stoker::agent {
namespace {
constexpr int kHangups = 100;
constexpr Duration kStandstill = 3s;
}  // namespace

Loop::Loop() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  STOKER_CHECK(wake_.get() >= 0, "eventfd");
  watch(wake_.get(), POLLIN, [this](short) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof count);
  });
}

void Loop::watch(int fd, short events, Callback callback) {
  watches_[fd] = {events, ++next_, std::make_shared<Callback>(std::move(callback)), 0};
}
void Loop::change(int fd, short events) {
  if (const auto found = watches_.find(fd); found != watches_.end()) found->second.events = events;
}
void Loop::forget(int fd) {
  watches_.erase(fd);
}

Loop::Timer Loop::after(Duration delay, Task task) {
  const Due due{monotonic_now() + delay, ++next_};
  timers_.emplace(due, std::move(task));
  timer_at_.emplace(due.id, due.at);
  return due.id;
}
void Loop::cancel(Timer& timer) {
  if (const auto found = timer_at_.find(timer); found != timer_at_.end()) {
    timers_.erase({found->second, found->first});
    timer_at_.erase(found);
  }
  timer = 0;
}

void Loop::post(Task task) {
  {
    const std::lock_guard lock(posted_mutex_);
    posted_.push_back(std::move(task));
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
}

void Loop::run_posted() {
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(posted_mutex_);
    tasks.swap(posted_);
  }
  for (Task& task : tasks) task();
}

void Loop::run_timers() {
  const Instant now = monotonic_now();
  while (!timers_.empty() && timers_.begin()->first.at <= now) {
    const Task task = std::move(timers_.begin()->second);
    timer_at_.erase(timers_.begin()->first.id);
    timers_.erase(timers_.begin());
    task();
  }
}

void Loop::note_standstill() {
  const Instant now = monotonic_now();
  if (!timers_.empty() && now - timers_.begin()->first.at > kStandstill) awake_since_ = now;
}

void Loop::note_hangup(int fd, std::uint64_t serial, short events) {
  const auto found = watches_.find(fd);
  if (found == watches_.end() || found->second.serial != serial) return;
  const bool hung = (events & POLLIN) == 0 && (events & (POLLHUP | POLLERR | POLLNVAL)) != 0;
  found->second.hangups = hung ? found->second.hangups + 1 : 0;
  if (found->second.hangups >= kHangups) watches_.erase(found);
}

void Loop::turn(Duration limit) {
  struct Ready {
    std::uint64_t serial;
  };
  std::vector<pollfd> polls;
  std::vector<Ready> serials;
  for (const auto& [fd, watch] : watches_) {
    polls.push_back({fd, watch.events, 0});
    serials.push_back({watch.serial});
  }
  Duration wait = limit;
  if (!timers_.empty()) wait = std::min(wait, timers_.begin()->first.at - monotonic_now());
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::max(wait, Duration{})).count();
  const int ready =
      ::poll(polls.data(), polls.size(), static_cast<int>(std::min<std::int64_t>(ms, 60000)));
  note_standstill();
  if (ready > 0) {
    for (std::size_t i = 0; i < polls.size(); ++i) {
      if (polls[i].revents == 0) continue;
      const auto found = watches_.find(polls[i].fd);
      if (found == watches_.end() || found->second.serial != serials[i].serial) continue;
      const auto callback = found->second.callback;  // survives forget() inside itself
      (*callback)(polls[i].revents);
      note_hangup(polls[i].fd, serials[i].serial, polls[i].revents);
    }
  }
  run_posted();
  run_timers();
}

void Loop::run() {
  stopped_ = false;
  while (!stopped_) turn(60s);
}

}  // namespace stoker::agent
