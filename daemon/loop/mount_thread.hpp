// MountThread: everything that touches the file system of some runs: their watchers are polled here
// (inotify is a hint, the clock the truth) and their files published. One a mount, so that a dead
// network file system stops no one else; the loop sees how long it has been stuck. Its thread is a
// MountShift; where that hangs in a part of one run, the next shift goes on without that part.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "daemon/loop/mount_shift.hpp"
#include "daemon/ports/os_ports.hpp"
#include "daemon/publish/run_publisher.hpp"

namespace stoker::daemon {

// What the journal has of all runs, read once.
using Cursors = std::shared_ptr<const std::vector<core::Cursor>>;
inline Cursors no_cursors() {
  return std::make_shared<const std::vector<core::Cursor>>();
}

// Of the loop's thread.
class MountThread {
 public:
  using Post = MountShift::Post;
  using Knowledge = std::function<LogKnowledge()>;

  // `knowledge`: of what the logs say, for the runs on this mount.
  MountThread(
      core::Clock& clock, Post post, Knowledge knowledge = [] { return LogKnowledge(false); });
  ~MountThread();

  // Watches a run from its `cursors` on, instead of as before; from the beginnings where it has
  // none.
  void watch(const core::RunPolicy& policy, Cursors cursors = no_cursors());
  void forget(const RunName& run, std::function<void()> done);
  // The generation whose job runs, for logs of runs without agents; 0 = none.
  void set_generation(const RunName& run, Generation live);
  // Jobs of its followers whose end is waited for.
  void set_follows(const RunName& run, std::vector<watch::Follow> follows);
  // Hands over the digests in the making of all runs. Called on the mount's thread.
  void flush(std::function<void(std::vector<core::Input>)> done);
  // Any other work on this mount. `part`: dropped while that is passed over.
  void post(std::function<void()> job, const RunPart& part = {});
  // From now on no compilation of log patterns is waited for (LogKnowledge::leave).
  void leave() { shift_->leave(); }
  void stop();

  // Where the thread has been at a part of a run for longer than `patience` of it: another one goes
  // on without that part until it answers. All runs of the mount are to be watched again. Empty: it
  // is not, or as many as can be are left behind.
  struct PassedBy {
    RunPart part;
    Duration since{};
  };
  using Patience = std::function<Duration(const RunPart&)>;
  std::optional<PassedBy> relieve(const Patience& patience);
  [[nodiscard]] bool is_passed_over(const RunPart& part) const {
    return passed_over_->contains(part);
  }

  // What it has been at, and for how long.
  [[nodiscard]] std::optional<std::pair<RunPart, Duration>> at() const { return shift_->at(); }
  [[nodiscard]] Duration busy_for() const;                             // 0 = waiting
  [[nodiscard]] std::size_t polls() const { return shift_->polls(); }  // of each run, at least
  // The newest heartbeat of a run that was read, for showing.
  [[nodiscard]] std::optional<watch::LiveBeat> live(const RunName& run) const;
  // How often the run's logs fell silent after an error.
  [[nodiscard]] std::size_t silences(const RunName& run) const { return shift_->silences(run); }
  // The run's last failed read; "" = all could be read.
  [[nodiscard]] std::string trouble() const { return shift_->trouble(); }

 private:
  core::Clock& clock_;
  Post post_;
  Knowledge knowledge_;
  std::shared_ptr<PassedOver> passed_over_ = std::make_shared<PassedOver>();
  std::map<RunName, Generation> generations_;
  std::map<RunName, std::vector<watch::Follow>> follows_;
  std::shared_ptr<MountShift> shift_;
};

}  // namespace stoker::daemon
