// SharedHistory: the history of a run, made on its mount's thread and read by the web door.
#pragma once

#include <mutex>

#include "core/publish/history.hpp"

namespace stoker::daemon {

class SharedHistory {
 public:
  explicit SharedHistory(RunName run, std::size_t most_points = 100'000)
      : history_(std::move(run), most_points) {}

  void take(const core::JournalRow& row) {
    const std::lock_guard lock(mutex_);
    history_.take(row);
  }
  // `use` gets the history; it keeps the writer waiting, so it is short.
  template <class Use>
  auto read(Use use) const {
    const std::lock_guard lock(mutex_);
    return use(static_cast<const core::History&>(history_));
  }

 private:
  mutable std::mutex mutex_;
  core::History history_;
};

}  // namespace stoker::daemon
