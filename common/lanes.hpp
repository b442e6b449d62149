// Work that may sleep in the kernel for ever, as where a file system does not answer or another
// user keeps a folder's lock. It is done on threads, one a lane, in order; the owner of the lanes
// goes on without a result once its time has passed, and only that lane waits.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker {

// Threads of all lanes of this process. Where some are left when main() ends, what they use must
// stay: end by _exit(2).
inline std::atomic<int> lanes_running{0};

inline constexpr Duration kNoLimit = std::chrono::hours(24 * 365);  // for Lanes::start()

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
    shared_->ready.clear();
    for (auto& [name, lane] : shared_->lanes) lane.waiting.clear();
  }
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Behind what waits in this lane; at once an Error where a piece of it has overstayed its time
  // and is not back. `work` owns all that it uses.
  void start(std::uint64_t id, const std::string& lane, Duration limit, Work work) {
    waits_[id] = {lane, monotonic_now() + limit, limit};
    const std::scoped_lock lock(shared_->mutex);
    Lane& its = shared_->lanes[lane];
    if (its.stuck) return refuse(id, no_answer(lane, monotonic_now() - its.since));
    its.waiting.emplace_back(id, std::move(work));
    if (its.runs || its.queued) return;
    its.queued = true;
    shared_->ready.push_back(lane);
    if (shared_->threads >= kMostThreads) return;  // one of them will take it
    try {
      ++shared_->threads;
      ++lanes_running;
      std::thread([shared = shared_] { run(*shared); }).detach();
    } catch (const std::system_error& error) {
      --shared_->threads;
      --lanes_running;
      shared_->ready.pop_back();
      shared_->lanes.erase(lane);
      refuse(id, Error{std::string("no thread for it: ") + error.what(), lane, ""});
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
      give_up(wait->first, wait->second.lane);
      all.emplace_back(wait->first, fail(no_answer(wait->second.lane, wait->second.limit)));
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
    shared_->ready.clear();
    for (auto& [name, lane] : shared_->lanes) lane.waiting.clear();
    return shared_->idle.wait_for(lock, limit, [this] { return shared_->threads == 0; });
  }

 private:
  static constexpr int kMostThreads = 64;  // all of them may be asleep in the kernel

  struct Wait {
    std::string lane;
    Instant until;
    Duration limit{};
  };
  struct Lane {
    std::deque<std::pair<std::uint64_t, Work>> waiting;
    bool queued = false;               // it is in `ready`, once
    bool runs = false, stuck = false;  // stuck: what runs has overstayed its time
    std::uint64_t id = 0;              // of what runs
    Instant since;
  };
  struct Shared {
    std::mutex mutex;
    std::map<std::string, Lane> lanes;
    std::deque<std::string> ready;  // lanes that wait for a thread
    int threads = 0;
    std::vector<Done> done;
    std::function<void()> wake;
    std::condition_variable idle;
  };

  static Error no_answer(const std::string& lane, Duration limit) {
    return {fmt::format("no answer for {}", format_duration(limit)), lane,
            "its file system or folder may be held"};
  }
  // Both under the lock.
  void refuse(std::uint64_t id, Error why) {
    shared_->done.emplace_back(id, fail(std::move(why)));
    if (shared_->wake) shared_->wake();
  }
  void give_up(std::uint64_t id, const std::string& name) {
    const auto lane = shared_->lanes.find(name);
    if (lane == shared_->lanes.end()) return;
    if (lane->second.runs && lane->second.id == id) lane->second.stuck = true;
    std::erase_if(lane->second.waiting, [id](const auto& piece) { return piece.first == id; });
  }

  static void run(Shared& shared) {
    std::unique_lock lock(shared.mutex);
    while (!shared.ready.empty()) {
      const std::string name = std::move(shared.ready.front());
      shared.ready.pop_front();
      run_lane(shared, name, lock);
    }
    --shared.threads;
    --lanes_running;
    shared.idle.notify_all();
  }
  static void run_lane(Shared& shared, const std::string& name,
                       std::unique_lock<std::mutex>& lock) {
    Lane& lane = shared.lanes[name];
    lane.queued = false;
    while (!lane.waiting.empty()) {
      auto [id, work] = std::move(lane.waiting.front());
      lane.waiting.pop_front();
      lane.runs = true;
      lane.id = id;
      lane.since = monotonic_now();
      lock.unlock();
      Result<T> result = work();
      work = nullptr;
      lock.lock();
      lane.runs = lane.stuck = false;
      shared.done.emplace_back(id, std::move(result));
      if (shared.wake) shared.wake();
    }
    shared.lanes.erase(name);
  }

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::map<std::uint64_t, Wait> waits_;
};

}  // namespace stoker
