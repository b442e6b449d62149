// Timeline: what happens next in the simulated world. Events at one moment run in the order in
// which they were planned.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "common/time.hpp"

namespace stoker::sim {

class Timeline {
 public:
  using Key = std::pair<Instant, std::uint64_t>;

  [[nodiscard]] Instant now() const { return now_; }
  Key at(Instant when, std::function<void()> what) {
    const Key key{std::max(when, now_), ++planned_};
    events_.emplace(key, std::move(what));
    return key;
  }
  Key after(Duration wait, std::function<void()> what) { return at(now_ + wait, std::move(what)); }
  void cancel(const Key& key) { events_.erase(key); }
  // Runs everything up to and including `end`; `stop` is asked after each event.
  template <class Stop>
  void run_until(Instant end, Stop stop) {
    while (!events_.empty() && events_.begin()->first.first <= end) {
      const auto next = events_.extract(events_.begin());
      now_ = next.key().first;
      next.mapped()();
      if (stop()) return;
    }
    now_ = std::max(now_, end);
  }

 private:
  Instant now_{};
  std::uint64_t planned_ = 0;
  std::map<Key, std::function<void()>> events_;
};

}  // namespace stoker::sim
