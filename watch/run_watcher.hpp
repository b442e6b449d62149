// RunWatcher: all that is seen of one run directory, as inputs of the engine with their cursors:
// agents' files, switch files, free space. No threads: the daemon's reader thread of that mount
// calls poll() when next_poll() has come or a folder of directories() changed. Everything may block
// on a dead mount.
#pragma once

#include <string>
#include <vector>

#include "watch/disk.hpp"
#include "watch/end_file.hpp"
#include "watch/finish_file.hpp"
#include "watch/follow_ends.hpp"
#include "watch/generations.hpp"
#include "watch/part.hpp"
#include "watch/switch_files.hpp"

namespace stoker::watch {

struct RunWatchOptions {
  core::RunPolicy policy;
  bool network = false;  // os::file_system_of(directory): no inotify, holes get a grace
};

class RunWatcher {
 public:
  // `cursors`: all that the journal has; those of this run are taken.
  RunWatcher(const RunWatchOptions& options, const std::vector<core::Cursor>& cursors);

  std::vector<core::Input> poll(Instant now, WallTime wall = wall_now(), const Gate& gate = {});
  // Jobs of followers whose end is waited for.
  void wait_for(std::vector<Follow> follows) { follow_ends_.wait_for(std::move(follows)); }
  // The digest in the making, to be fed before a Tick. Empty: nothing new since the last one.
  std::vector<core::Input> flush_digest();

  [[nodiscard]] std::optional<LiveBeat> live() const { return generations_.live(); }
  [[nodiscard]] Instant next_poll() const { return next_poll_; }
  [[nodiscard]] std::vector<std::string> directories() const;
  // Whether changes in all of directories() are hinted: then a quiet run is polled less often.
  void set_hinted(bool hinted) { hinted_ = hinted; }
  // What could not be read at the last poll; empty when all could.
  [[nodiscard]] const std::optional<Error>& error() const { return generations_.error(); }

 private:
  [[nodiscard]] bool is_quiet(Instant now) const;

  std::string directory_;
  bool network_, agents_, hinted_ = false;
  Generations generations_;
  SwitchFiles switches_;
  DiskWatch disk_;
  FinishFile finish_file_;
  EndFile end_file_;
  FollowEnds follow_ends_;
  std::optional<Instant> disk_polled_;
  Instant next_poll_, moved_;
};

}  // namespace stoker::watch
