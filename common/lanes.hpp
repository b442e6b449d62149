// Work that may sleep in the kernel for ever, as where a file system does not answer or another
// user keeps a folder's lock. It is done on threads, one a lane, in order; the owner of the lanes
// goes on without a result once its time has passed, and only that lane waits.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker {

// Used by one thread. `T`: what a piece of work gives.
template <class T>
class Lanes {
 public:
  using Work = std::function<Result<T>()>;
  using Done = std::pair<std::uint64_t, Result<T>>;

  // `wake` is called by the lanes' threads when something is done, never after the end of this.
  explicit Lanes(std::function<void()> wake) { shared_->wake = std::move(wake); }
  // A thread that has not come back is left alone; what it still does is lost.
  ~Lanes() {
    const std::scoped_lock lock(shared_->mutex);
    shared_->wake = nullptr;
    for (auto& [name, lane] : shared_->lanes) lane.clear();
  }
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Behind what waits in this lane. `work` owns all that it uses.
  void start(std::uint64_t id, const std::string& lane, Duration limit, Work work) {
    waits_[id] = {lane, monotonic_now() + limit, limit};
    const std::scoped_lock lock(shared_->mutex);
    const auto [at, idle] = shared_->lanes.try_emplace(lane);
    at->second.emplace_back(id, std::move(work));
    if (!idle) return;
    try {
      std::thread([shared = shared_, lane] { run(*shared, lane); }).detach();
    } catch (const std::system_error& error) {
      shared_->lanes.erase(at);
      shared_->done.emplace_back(id, fail(std::string("no thread for it: ") + error.what()));
    }
  }

  // What is done, and what has overstayed its time: an Error; it is not begun any more.
  std::vector<Done> collect() {
    const Instant now = monotonic_now();
    std::vector<Done> all;
    const std::scoped_lock lock(shared_->mutex);
    for (Done& one : std::exchange(shared_->done, {}))
      if (waits_.erase(one.first) > 0) all.push_back(std::move(one));
    for (auto wait = waits_.begin(); wait != waits_.end();) {
      if (wait->second.until > now) {
        ++wait;
        continue;
      }
      if (const auto lane = shared_->lanes.find(wait->second.lane); lane != shared_->lanes.end())
        std::erase_if(lane->second, [&](const auto& piece) { return piece.first == wait->first; });
      all.emplace_back(wait->first,
                       fail(fmt::format("no answer for {}", format_duration(wait->second.limit)),
                            wait->second.lane, "its file system or folder may be held"));
      wait = waits_.erase(wait);
    }
    return all;
  }

  // Until something has overstayed its time; at most `longest`.
  [[nodiscard]] Duration patience(Duration longest) const {
    for (const auto& [id, wait] : waits_) longest = std::min(longest, wait.until - monotonic_now());
    return std::max(longest, Duration::zero());
  }
  [[nodiscard]] std::size_t under_way() const { return waits_.size(); }

  // Begins nothing more, and waits for what runs. False: something does not come back in time.
  bool finish(Duration limit) {
    std::unique_lock lock(shared_->mutex);
    for (auto& [name, lane] : shared_->lanes) lane.clear();
    return shared_->idle.wait_for(lock, limit, [this] { return shared_->lanes.empty(); });
  }

 private:
  struct Wait {
    std::string lane;
    Instant until;
    Duration limit{};
  };
  struct Shared {
    std::mutex mutex;
    std::map<std::string, std::deque<std::pair<std::uint64_t, Work>>>
        lanes;  // there: a thread runs
    std::vector<Done> done;
    std::function<void()> wake;
    std::condition_variable idle;
  };

  static void run(Shared& shared, const std::string& name) {
    for (std::unique_lock lock(shared.mutex);;) {
      const auto lane = shared.lanes.find(name);
      if (lane->second.empty()) {
        shared.lanes.erase(lane);
        shared.idle.notify_all();
        return;
      }
      auto [id, work] = std::move(lane->second.front());
      lane->second.pop_front();
      lock.unlock();
      Result<T> result = work();
      work = nullptr;
      lock.lock();
      shared.done.emplace_back(id, std::move(result));
      if (shared.wake) shared.wake();
    }
  }

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::map<std::uint64_t, Wait> waits_;
};

}  // namespace stoker
