// MountThread: everything that touches the file system of some runs: their watchers are polled here
// (inotify is a hint, the clock the truth) and their files published. One a mount, so that a dead
// network file system stops no one else; the loop sees how long it has been stuck.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "core/engine/engine.hpp"
#include "daemon/logs/log_watch.hpp"
#include "daemon/ports/os_ports.hpp"
#include "daemon/publish/run_publisher.hpp"
#include "watch/inotify.hpp"
#include "watch/run_watcher.hpp"

namespace stoker::daemon {

class MountThread {
 public:
  using Post = std::function<void(std::vector<core::Input>)>;

  // `knowledge`: of what the logs say, for the runs on this mount.
  MountThread(core::Clock& clock, Post post, LogKnowledge knowledge = LogKnowledge{false});
  ~MountThread();

  // Watches a run from `cursors` on, instead of as before.
  void watch(const core::RunPolicy& policy, std::vector<core::Cursor> cursors);
  void forget(const RunName& run, std::function<void()> done);
  // The generation whose job runs, for logs of runs without agents; 0 = none.
  void set_generation(const RunName& run, Generation live);
  // Jobs of its followers whose end is waited for.
  void set_follows(const RunName& run, std::vector<watch::Follow> follows);
  // Hands over the digests in the making of all runs. Called on the mount's thread.
  void flush(std::function<void(std::vector<core::Input>)> done);
  // Any other work on this mount.
  void post(std::function<void()> job);
  // From now on no compilation of log patterns is waited for (LogKnowledge::leave).
  void leave() { knowledge_.leave(); }
  void stop();

  [[nodiscard]] Duration busy_for() const;  // of one job or one poll; 0 = waiting
  [[nodiscard]] std::size_t polls() const;  // of each run, at least
  // The newest heartbeat of a run that was read, for showing.
  [[nodiscard]] std::optional<watch::LiveBeat> live(const RunName& run) const;
  // How often the run's logs fell silent after an error.
  [[nodiscard]] std::size_t silences(const RunName& run) const;
  // The run's last failed read; "" = all could be read.
  [[nodiscard]] std::string trouble() const;

 private:
  void work();
  bool run_jobs();
  void poll_due(const std::set<std::string>& hinted);
  void wait_until(Instant due);
  void set_busy(bool busy);

  core::Clock& clock_;
  Post post_;
  mutable std::mutex mutex_;
  std::vector<std::function<void()>> jobs_;
  std::optional<Instant> busy_since_;
  std::size_t polls_ = 0;
  std::string trouble_;
  std::map<RunName, watch::LiveBeat> live_;
  std::map<RunName, std::size_t> silences_;
  bool stopping_ = false;
  os::Fd wake_;  // eventfd
  // Of the thread alone:
  struct Watched {
    std::unique_ptr<watch::RunWatcher> watcher;
    std::unique_ptr<LogWatch> logs;
    std::size_t polls = 0;
    std::vector<core::Input> poll(Instant now);
    [[nodiscard]] Instant next_poll(Instant now) const;
  };
  LogKnowledge knowledge_;
  std::map<RunName, Watched> watchers_;
  std::map<RunName, Generation> generations_;
  std::map<RunName, std::vector<watch::Follow>> follows_;
  watch::Inotify inotify_;
  Instant last_poll_;
  std::thread thread_;
};

}  // namespace stoker::daemon
