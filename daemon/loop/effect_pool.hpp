// EffectPool: performs journalled intents on its own threads and posts the results back. Effects of
// one run go one after another in the order they were decided; runs do not wait for each other, and
// alerts for no other run. Bounded in threads, not in the queue: what is queued is already
// journalled.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "core/engine/engine.hpp"

namespace stoker::daemon {

class EffectPool final : public core::EffectRunner {
 public:
  using Perform =
      std::function<std::vector<core::EventBody>(const core::Intent&, const core::PerformContext&)>;
  using Context = std::function<core::PerformContext(const core::Intent&)>;
  using Post = std::function<void(std::vector<core::Input>)>;

  // `context` is called by start(), on the engine's thread; `perform` and `post` on a pool thread.
  EffectPool(std::size_t threads, Context context, Perform perform, Post post);
  ~EffectPool() override;  // waits for the effects that run; queued ones stay open in the journal

  void start(const core::Intent& intent) override;
  [[nodiscard]] std::size_t waiting() const;
  // Waits for the effects that run; not for one that does not come back.
  void stop();
  // Another thread where effects wait and all threads have been at theirs for long: one may be in a
  // folder that others made hang.
  void keep_going();
  // A thread of this process may not have come back: end by _exit(2), not by returning from main().
  static bool left_behind();

 private:
  struct Job {
    core::Intent intent;
    core::PerformContext context;
  };
  struct Lane {
    std::deque<Job> jobs;
    bool busy = false;
    Instant since;
  };
  void work();
  [[nodiscard]] bool is_stuck(Duration least) const;  // an effect has taken so long

  Context context_;
  Perform perform_;
  Post post_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, Lane> lanes_;
  bool stopping_ = false;
  std::size_t busy_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace stoker::daemon
