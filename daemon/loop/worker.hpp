// Worker: one thread that runs jobs in order, and says how long the present one has been running.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "common/time.hpp"

namespace stoker::daemon {

class Worker {
 public:
  Worker();
  ~Worker();  // finishes the jobs that were posted
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void post(std::function<void()> job);
  // Runs the posted jobs to their end, then the thread ends. Later posts are dropped.
  void stop();
  [[nodiscard]] Duration busy_for() const;  // 0 = waiting for work

 private:
  void work();
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  std::optional<Instant> busy_since_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace stoker::daemon
