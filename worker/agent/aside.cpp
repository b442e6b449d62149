// One thread is kept in reserve: it tries again while a thread cannot be made.
#include "worker/agent/aside.hpp"

#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <system_error>

#include "common/printable.hpp"
#include "common/time.hpp"

namespace stoker::agent {
namespace {

constexpr Duration kRetry = 1s;

class Waiting {
 public:
  void add(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    if (!std::exchange(said_, true))
      tell_stderr(
          "stoker-agent: no thread can be made (limit of processes or of memory); what it "
          "was for waits, and is tried again every second; see `ulimit -u`");
    changed_.notify_all();
  }

  bool has_reserve() {
    const std::lock_guard lock(mutex_);
    if (!reserve_) reserve_ = detach([this] { retry(); });
    return reserve_;
  }

  bool has_work() {
    const std::lock_guard lock(mutex_);
    return !queue_.empty();
  }

  static bool detach(std::function<void()> work) {
    Thread thread = try_thread(work);
    if (thread) thread->detach();
    return thread.has_value();
  }

 private:
  void retry() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !queue_.empty(); });
      while (!queue_.empty() && detach(queue_.front())) queue_.pop_front();
      if (queue_.empty()) said_ = false;
      changed_.wait_for(lock, kRetry, [] { return false; });
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool reserve_ = false, said_ = false;
};

Waiting& waiting() {
  static auto* const kept = new Waiting;  // its thread outlives main()
  return *kept;
}

}  // namespace

bool can_run_aside() {
  return waiting().has_reserve();
}

bool is_short_of_threads() {
  return waiting().has_work();
}

void run_aside_soon(std::function<void()> work) {
  (void)can_run_aside();
  if (!Waiting::detach(work)) waiting().add(std::move(work));
}

// A thread inherits its creator's mask: none takes a signal that the agent's loop waits for.
Thread try_thread(const std::function<void()>& work) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Thread thread;
  try {
    thread.emplace(work);
  } catch (const std::system_error&) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace stoker::agent
