// The agent's event loop: one thread, poll(2) over a few dozen descriptors, timers, and functions
// posted by other threads. Everything of the agent that has state runs here; what may block (a
// network file system, gdb, NVML) has its own thread and posts its result back.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "common/os/fd.hpp"
#include "common/time.hpp"

namespace stoker::agent {

class Loop {
 public:
  using Callback = std::function<void(short events)>;
  using Task = std::function<void()>;
  using Timer = std::uint64_t;  // 0 = none

  Loop();

  // Calls back with poll's revents while the descriptor is watched. A callback may watch and forget
  // any descriptor, also its own. The loop does not own descriptors: forget before close. A
  // descriptor that is hung up with nothing to read, and is watched on all the same, is forgotten
  // after kHangups turns: the loop must never spin.
  void watch(int fd, short events, Callback callback);
  void change(int fd, short events);
  void forget(int fd);

  Timer after(Duration delay, Task task);
  void cancel(Timer& timer);  // sets it to 0; harmless when it has fired

  void post(Task task);  // from any thread
  void run();            // until stop()
  void stop() { stopped_ = true; }
  [[nodiscard]] bool watches(int fd) const { return watches_.contains(fd); }
  // When the loop last went on after its process had stood still (its job was suspended, its
  // virtual machine moved) or a callback had blocked: a timer was late by more than kStandstill.
  [[nodiscard]] Instant awake_since() const { return awake_since_; }
  // One turn of at most `limit`; for tests.
  void turn(Duration limit);

 private:
  struct Watch {
    short events = 0;
    std::uint64_t serial = 0;
    std::shared_ptr<Callback> callback;
    int hangups = 0;  // in a row
  };
  struct Due {
    Instant at;
    Timer id;
    auto operator<=>(const Due&) const = default;
  };

  void note_standstill();
  void note_hangup(int fd, std::uint64_t serial, short events);
  void run_posted();
  void run_timers();

  os::Fd wake_;
  std::map<int, Watch> watches_;
  std::map<Due, Task> timers_;
  std::map<Timer, Instant> timer_at_;
  std::uint64_t next_ = 0;
  bool stopped_ = false;
  Instant awake_since_{};
  std::mutex posted_mutex_;
  std::vector<Task> posted_;
};

}  // namespace stoker::agent
