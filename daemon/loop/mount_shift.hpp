// MountShift: one thread of a MountThread, with the watchers that it polls. When it does not come
// back from a part of a run, another shift takes over without that part, and this one ends by
// itself when it comes back: what it has read by then is dropped, as no cursor of it was posted.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/engine/engine.hpp"
#include "daemon/logs/log_watch.hpp"
#include "watch/inotify.hpp"
#include "watch/part.hpp"
#include "watch/run_watcher.hpp"

namespace stoker::daemon {

// A part of a run on a mount; of the site: what it publishes, and its own (lease, socket, jobs that
// touch no file).
struct RunPart {
  RunName run;
  watch::Part part = watch::Part::Own;
  auto operator<=>(const RunPart&) const = default;
  // No shift goes on without it.
  [[nodiscard]] bool is_of_daemon() const { return run.empty() && part == watch::Part::Own; }
};

// What no shift of a mount reads now, because an earlier one does not come back from it.
class PassedOver {
 public:
  void add(const RunPart& part);
  void remove(const RunPart& part);
  [[nodiscard]] bool contains(const RunPart& part) const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t size(watch::Part part) const;

 private:
  mutable std::mutex mutex_;
  std::multiset<RunPart> parts_;
};

class MountShift : public std::enable_shared_from_this<MountShift> {
 public:
  using Post = std::function<void(std::vector<core::Input>)>;
  struct Job {
    std::function<void(MountShift&)> work;
    RunPart part;  // is dropped where that is passed over
  };
  struct Watched {
    std::unique_ptr<watch::RunWatcher> watcher;
    std::unique_ptr<LogWatch> logs;
    std::size_t polls = 0;
  };

  MountShift(core::Clock& clock, Post post, LogKnowledge knowledge,
             std::shared_ptr<PassedOver> passed_over);
  ~MountShift();
  MountShift(const MountShift&) = delete;
  MountShift& operator=(const MountShift&) = delete;

  void begin();
  void post(Job job);
  // Does what was posted, then ends. Waits for it; not for a thread that does not come back.
  void stop();
  // Where it has been at a part for so long: it is passed over from now on, until this shift comes
  // back, and another shift takes over what was posted and not begun, but for jobs of that part.
  struct Left {
    RunPart part;
    Duration since{};
    std::deque<Job> jobs;
  };
  std::optional<Left> abandon(const std::function<bool(const RunPart&, Duration)>& is_stuck);
  // A thread of this process may not have come back: end by _exit(2), not by returning from main().
  static bool left_behind();
  void leave() { knowledge_.leave(); }  // no compilation of log patterns is waited for

  // What it has been at, and for how long; empty: it waits.
  [[nodiscard]] std::optional<std::pair<RunPart, Duration>> at() const;
  [[nodiscard]] std::size_t polls() const;
  [[nodiscard]] std::optional<watch::LiveBeat> live(const RunName& run) const;
  [[nodiscard]] std::size_t silences(const RunName& run) const;
  [[nodiscard]] std::string trouble() const;

  // For jobs, on the shift's own thread.
  [[nodiscard]] bool abandoned() const;
  void watch(const core::RunPolicy& policy, const std::vector<core::Cursor>& cursors);
  void forget(const RunName& run);
  void set_generation(const RunName& run, Generation live);
  void set_follows(const RunName& run, const std::vector<watch::Follow>& follows);
  std::vector<core::Input> flush();

 private:
  void work();
  void take_turns();
  bool run_jobs();
  void poll_due(const std::set<std::string>& hinted);
  void poll(const RunName& run, Watched& watched, Instant now, std::vector<core::Input>& out);
  void wait_until(Instant due);
  [[nodiscard]] Instant next_due() const;
  bool enter(const RunPart& part);
  void rest();
  [[nodiscard]] static Instant next_poll(const Watched& watched, Instant now);

  core::Clock& clock_;
  Post post_;
  std::shared_ptr<PassedOver> passed_over_;
  mutable std::mutex mutex_;
  std::deque<Job> jobs_;
  std::optional<std::pair<RunPart, Instant>> at_;
  std::size_t polls_ = 0;
  std::string trouble_;
  std::map<RunName, watch::LiveBeat> live_;
  std::map<RunName, std::size_t> silences_;
  bool stopping_ = false, abandoned_ = false;
  std::optional<RunPart> left_at_;
  os::Fd wake_;  // eventfd
  // Of the thread alone:
  LogKnowledge knowledge_;
  std::map<RunName, Watched> watchers_;
  std::map<RunName, Generation> generations_;
  std::map<RunName, std::vector<watch::Follow>> follows_;
  watch::Inotify inotify_;
  Instant last_poll_, due_;  // of the first watcher; 0: a job changed one
  std::thread thread_;
};

}  // namespace stoker::daemon
