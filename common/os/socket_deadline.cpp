// One thread for all of them. It has descriptors of its own, so that a number that was closed and
// given to another file meanwhile is never shut down.
#include "common/os/socket_deadline.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <sys/socket.h>
#include <thread>

#include "common/os/fd.hpp"

namespace stoker::os {
namespace {

using Clock = std::chrono::steady_clock;

struct Deadlines {
  struct Waits {
    Fd socket;
    Clock::time_point at;
  };
  std::mutex mutex;
  std::condition_variable news;
  std::map<std::uint64_t, Waits> waits;
  std::uint64_t last = 0;
  bool begun = false;

  // It lives as long as the process: it is needed while others end.
  static Deadlines& of_process() {
    static auto* const kept = new Deadlines;
    return *kept;
  }

  [[noreturn]] void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      const auto next =
          std::min_element(waits.begin(), waits.end(),
                           [](const auto& a, const auto& b) { return a.second.at < b.second.at; });
      if (next == waits.end()) {
        news.wait(lock);
      } else if (next->second.at > Clock::now()) {
        const auto at = next->second.at;  // the entry may be gone while this waits
        news.wait_until(lock, at);
      } else {
        ::shutdown(next->second.socket.get(), SHUT_RDWR);
        waits.erase(next);
      }
    }
  }
};

}  // namespace

SocketDeadline::SocketDeadline(int socket, Duration after) {
  Fd own(socket < 0 ? -1 : ::fcntl(socket, F_DUPFD_CLOEXEC, 0));
  if (!own) return;
  Deadlines& all = Deadlines::of_process();
  const std::scoped_lock lock(all.mutex);
  if (!std::exchange(all.begun, true)) std::thread([&all] { all.run(); }).detach();
  id_ = ++all.last;
  all.waits.emplace(id_, Deadlines::Waits{std::move(own), Clock::now() + after});
  all.news.notify_one();
}

void SocketDeadline::end_now() {
  if (id_ == 0) return;
  Deadlines& all = Deadlines::of_process();
  const std::scoped_lock lock(all.mutex);
  const auto found = all.waits.find(std::exchange(id_, 0));
  if (found == all.waits.end()) return;
  ::shutdown(found->second.socket.get(), SHUT_RDWR);
  all.waits.erase(found);
}

void SocketDeadline::lift() {
  if (id_ == 0) return;
  Deadlines& all = Deadlines::of_process();
  const std::scoped_lock lock(all.mutex);
  all.waits.erase(std::exchange(id_, 0));
}

}  // namespace stoker::os
