// The process that looks at switch/ for its agent. A look that sleeps in the kernel keeps it alone,
// and neither a thread of the agent nor the agent's end: a process whose thread cannot be woken
// never ends. While a look has no answer no second one begins.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <sys/types.h>

#include "common/os/fd.hpp"
#include "worker/agent/switch_look.hpp"

namespace stoker::agent {

class SwitchProcess {
 public:
  // That of this agent. Without start() (tests) looks are made in the calling thread.
  static SwitchProcess& of_agent();

  void start() { started_ = true; }  // with the next look, and again when it has ended
  // By `command` in place of "stoker-agent switches"; the socket's number comes last.
  void start_as(std::vector<std::string> command);

  // What is seen now, or what the look that was under way sees. Error also: no answer within
  // `limit`, which names the folder; empty: it waits for as long as it takes.
  Result<SwitchLook> look(const std::string& run_directory, std::optional<Duration> limit);

  [[nodiscard]] pid_t pid() const { return pid_; }  // 0: none

 private:
  Status ask(const std::string& run_directory);
  Status spawn();
  Status receive();
  Status ended();

  std::atomic<bool> started_ = false;
  std::atomic<pid_t> pid_ = 0;
  std::mutex mutex_;  // of what follows; never held for long
  std::vector<std::string> command_;
  os::Fd socket_;
  bool asked_ = false;
  std::uint64_t answers_ = 0;
  Result<SwitchLook> last_ = SwitchLook{};
};

// The process mode `stoker-agent switches`: answers until the agent's end of the socket closes.
int answer_looks(int socket);

// The kill or stop that lies there and counts; waits for `limit` at most. Empty: none. Error: the
// folder is refused, or does not answer.
Result<std::optional<SwitchSeen>> read_end_switch(const std::string& run_directory,
                                                  Duration limit = 5s);

}  // namespace stoker::agent
