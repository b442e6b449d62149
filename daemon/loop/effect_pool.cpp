// EffectPool: lanes with one effect at a time each, served by a few threads.
#include "daemon/loop/effect_pool.hpp"

#include <algorithm>
#include <atomic>

namespace stoker::daemon {
namespace {

constexpr std::size_t kMostThreads = 64;
constexpr Duration kLong = 30s;      // of an effect: sbatch's own limit is below it
constexpr Duration kLastWait = 10s;  // for what is at work when it is to end
constexpr Duration kLook = 20ms;

std::atomic<bool> left_some_behind = false;

}  // namespace

EffectPool::EffectPool(std::size_t threads, Context context, Perform perform, Post post)
    : context_(std::move(context)), perform_(std::move(perform)), post_(std::move(post)) {
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

EffectPool::~EffectPool() {
  stop();
}

void EffectPool::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::unique_lock lock(mutex_); busy_ > 0;) {
    if (is_stuck(kLong + kLastWait)) {
      left_some_behind = true;
      for (std::thread& thread : threads_)
        if (thread.joinable()) thread.detach();
      return;
    }
    wake_.wait_for(lock, kLook);
  }
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

bool EffectPool::left_behind() {
  return left_some_behind;
}

bool EffectPool::is_stuck(Duration least) const {
  return std::any_of(lanes_.begin(), lanes_.end(), [least](const auto& entry) {
    return entry.second.busy && monotonic_now() - entry.second.since >= least;
  });
}

void EffectPool::keep_going() {
  const std::scoped_lock lock(mutex_);
  const bool waits = std::any_of(lanes_.begin(), lanes_.end(), [](const auto& entry) {
    return !entry.second.busy && !entry.second.jobs.empty();
  });
  if (!waits || busy_ < threads_.size() || threads_.size() >= kMostThreads || !is_stuck(kLong))
    return;
  threads_.emplace_back([this] { work(); });
}

void EffectPool::start(const core::Intent& intent) {
  // Neither a notification nor a hanging probe keeps a run's other effects waiting.
  const char* lane = std::holds_alternative<core::SendAlert>(intent.action)  ? "alert/"
                     : std::holds_alternative<core::ProbeJob>(intent.action) ? "probe/"
                                                                             : "run/";
  Job job{intent, context_(intent)};
  {
    const std::scoped_lock lock(mutex_);
    lanes_[lane + intent.run.text].jobs.push_back(std::move(job));
  }
  wake_.notify_one();
}

std::size_t EffectPool::waiting() const {
  const std::scoped_lock lock(mutex_);
  std::size_t count = 0;
  for (const auto& [name, lane] : lanes_) count += lane.jobs.size() + (lane.busy ? 1 : 0);
  return count;
}

void EffectPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    auto ready = lanes_.begin();
    while (ready != lanes_.end() && (ready->second.busy || ready->second.jobs.empty())) ++ready;
    if (stopping_) return;
    if (ready == lanes_.end()) {
      wake_.wait(lock);
      continue;
    }
    Lane& lane = ready->second;
    const Job job = std::move(lane.jobs.front());
    lane.jobs.pop_front();
    lane.busy = true;
    lane.since = monotonic_now();
    ++busy_;
    lock.unlock();
    std::vector<core::Input> results;
    for (core::EventBody& body : perform_(job.intent, job.context))
      results.push_back({job.intent.run, std::move(body), {}});
    post_(std::move(results));
    lock.lock();
    lane.busy = false;
    --busy_;
    if (!lane.jobs.empty()) wake_.notify_one();
  }
}

}  // namespace stoker::daemon
