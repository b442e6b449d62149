// Processes: spawn by fork + exec in an own session, pidfds, identities that survive pid reuse. No
// shell anywhere: argv only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker::os {

// A process identified for good: a pid alone is reused. `started` is field 22 of /proc/<pid>/stat
// (clock ticks since boot).
struct ProcessIdentity {
  pid_t pid = 0;
  std::uint64_t started = 0;
  auto operator<=>(const ProcessIdentity&) const = default;
};

struct SpawnOptions {
  std::vector<std::string> argv;                   // argv[0] is looked up in PATH of `environment`
  std::map<std::string, std::string> environment;  // the whole environment of the child
  std::string working_directory;                   // "" = ours
  int stdin_fd = -1, stdout_fd = -1, stderr_fd = -1;  // -1 = /dev/null
  std::vector<int> keep_fds;    // stay open in the child, under the same numbers
  bool new_session = true;      // setsid: own session and process group
  int parent_death_signal = 0;  // PR_SET_PDEATHSIG of the spawning THREAD; 0 = none
  bool subreaper = false;       // PR_SET_CHILD_SUBREAPER before exec (not inherited)
  // Of run_command alone: gets stdout piece by piece in place of CommandOutput::out. False: enough,
  // the command is ended, and the answer is `truncated`.
  std::function<bool(std::string_view)> take{};
};

struct Child {
  ProcessIdentity identity;
  Fd pidfd;
};

// Starts a process. A command that cannot be executed is an error here (exec's errno comes back
// through a pipe).
Result<Child> spawn(const SpawnOptions& options);

// Opens a pidfd for a process that is not necessarily our child; empty when it is gone or another
// one has its pid.
std::optional<Fd> open_process(const ProcessIdentity& identity);
Result<ProcessIdentity> identify(pid_t pid);     // error when it is gone
bool is_alive(const ProcessIdentity& identity);  // a zombie is not alive
bool has_exited(const Fd& pidfd);                // without waiting

Status send_signal(const Fd& pidfd, int signal);

struct ExitStatus {
  int code = 0;    // exit code; 0 when killed by a signal
  int signal = 0;  // 0 when it exited
  bool core = false;
  [[nodiscard]] bool ok() const { return code == 0 && signal == 0; }
  [[nodiscard]] std::string text()
      const;  // "exit 3", "signal 9 (Killed)", "signal 11 (Segmentation fault, core dumped)"
};
// Reaps our own child. Empty while it runs.
Result<std::optional<ExitStatus>> try_wait(const Child& child);

// Runs a command to its end with a deadline and a cap on each stream (the rest is read and dropped,
// `truncated` set). After the deadline: TERM, 2 s later KILL, to the whole process group; the error
// says "timed out".
struct CommandOutput {
  ExitStatus status;
  std::string out, err;
  bool truncated = false;
};
Result<CommandOutput> run_command(const SpawnOptions& options, Duration deadline,
                                  std::size_t output_limit = 8u << 20,
                                  const std::string& input = {});

// Direct and indirect children of `pid`, read from /proc; a snapshot.
std::vector<pid_t> descendants_of(pid_t pid);

std::map<std::string, std::string> current_environment();

}  // namespace stoker::os
