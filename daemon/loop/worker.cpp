// Worker: a mutex, a queue, a thread.
#include "daemon/loop/worker.hpp"

namespace stoker::daemon {

Worker::Worker() : thread_([this] { work(); }) {}

Worker::~Worker() {
  stop();
}

void Worker::post(std::function<void()> job) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) return;
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void Worker::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Duration Worker::busy_for() const {
  const std::scoped_lock lock(mutex_);
  return busy_since_ ? monotonic_now() - *busy_since_ : Duration::zero();
}

void Worker::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const auto job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_since_ = monotonic_now();
    lock.unlock();
    job();
    lock.lock();
    busy_since_.reset();
  }
}

}  // namespace stoker::daemon
