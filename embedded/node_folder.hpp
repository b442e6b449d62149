// <folder>/jobs/<job>_<task>/r<restart>/<node>/: how the scheduler process and a node process talk.
// Files only, so that each may be killed and started again at any moment:
//   spec.json    what to run (written by the scheduler before the start)
//   alive.json   claimed once by the node process as its first act; a second one leaves at once
//   exit.json    how the agent ended, renamed into place when all its processes are gone
//   output.log   stdout and stderr of the agent
// What is in it says what is executed: it counts only if our own user or root wrote it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/os/process.hpp"
#include "embedded/cluster.hpp"

namespace stoker::embedded {

struct NodeSpec {
  std::string mark;  // value of STOKER_LOCAL_MARK in every process of this run
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;  // whole
  std::string working_directory;
  WallTime ends;             // the wall: TERM, and kill_wait later KILL
  Duration signal_before{};  // 0 = none
  std::string signal = "USR1";
  Duration kill_wait = 30s;
  STOKER_FIELDS(NodeSpec, mark, argv, environment, working_directory, ends, signal_before, signal,
                kill_wait)
};

struct NodeAlive {
  std::int64_t pid = 0;  // 0: the scheduler claimed it, no process may start here any more
  std::uint64_t started = 0;
  std::string boot_id;
  STOKER_FIELDS(NodeAlive, pid, started, boot_id)
  [[nodiscard]] os::ProcessIdentity identity() const { return {static_cast<pid_t>(pid), started}; }
};

struct NodeExit {
  int exit_code = 0, signal = 0;
  std::string why;               // "": by itself, "limit", "term", "launch" = could not be started
  std::string detail;            // one line that people read
  std::uint32_t unkillable = 0;  // processes that survived KILL: the node needs a person
  STOKER_FIELDS(NodeExit, exit_code, signal, why, detail, unkillable)
};

class NodeFolder {
 public:
  NodeFolder(const std::string& cluster_folder, const JobId& job, std::uint32_t restart,
             const NodeName& node);
  explicit NodeFolder(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string output() const { return path_ + "/output.log"; }

  Status write_spec(const NodeSpec& spec) const;  // makes the folder
  [[nodiscard]] Result<NodeSpec> read_spec() const;
  [[nodiscard]] Result<bool> claim(const NodeAlive& alive) const;  // false: somebody has it
  // Empty: not there yet. A torn or foreign file is an error.
  [[nodiscard]] Result<std::optional<NodeAlive>> read_alive() const;
  [[nodiscard]] Result<std::optional<NodeExit>> read_exit() const;
  // Reserves the room for exit.json, so that a full disk cannot hide how a job ended.
  Status reserve_exit() const;
  Status write_exit(const NodeExit& exit) const;

 private:
  std::string path_;
};

// The signal's number for "USR1", "SIGUSR1" or "10"; 0 when there is no such signal.
int signal_number(const std::string& name);

}  // namespace stoker::embedded
