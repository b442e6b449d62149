#include "worker/train/data/read_ahead.hpp"

#include <system_error>

namespace stoker::train {

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ReadAhead::plan(const std::vector<std::uint64_t>& ids) {
  {
    const std::lock_guard lock(mutex_);
    unread_ = {ids.begin(), ids.end()};
    std::erase_if(ready_, [&](const auto& entry) { return unread_.erase(entry.first) == 0; });
  }
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { read(); });
  } catch (const std::system_error&) {  // no thread can be had now: sample() reads
    const std::lock_guard lock(mutex_);
    unread_.clear();
  }
  changed_.notify_all();
}

Result<Sample> ReadAhead::sample(std::uint64_t id) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !unread_.contains(id); });
  if (const auto found = ready_.find(id); found != ready_.end()) return found->second;
  lock.unlock();
  return data_.sample(id);
}

void ReadAhead::read() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (unread_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const std::uint64_t id = *unread_.begin();
    lock.unlock();
    Result<Sample> sample = data_.sample(id);
    lock.lock();
    if (unread_.erase(id) > 0) ready_.emplace(id, std::move(sample));
    changed_.notify_all();
  }
}

}  // namespace stoker::train
