// One process of a rank (or a warm standby) under its guardian, as the agent's loop sees it: both
// streams drained as they come, the exit with its signal, and the proof that its whole tree is
// gone. All callbacks come from the loop's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/process.hpp"
#include "wire/standby.hpp"
#include "worker/agent/loop.hpp"

namespace stoker::agent {

struct GuardianOrder;

struct Watchmen {  // whom the guardian watches
  os::ProcessIdentity agent, keeper;
  std::string mark;
};

struct RankPlan {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;
  std::string working_directory;
  bool standby = false;  // gives it a socket in STOKER_STANDBY_FD
};

class RankProcess {
 public:
  struct Events {
    std::function<void(int stream, std::string_view bytes)> output;  // 1 stdout, 2 stderr
    std::function<void(const os::ExitStatus&)> exited;    // once; the output so far came before
    std::function<void(const std::string& stuck)> clear;  // once, last; "" = proven gone
    std::function<void()> ready;                          // a standby has initialised itself
    // The machine has no process for it now; called about each second until it has.
    std::function<void(const std::string& what)> waits;
  };

  static Result<std::unique_ptr<RankProcess>> start(Loop& loop, const Watchmen& watchmen,
                                                    const RankPlan& plan, Events events);
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  void replace_events(Events events) { events_ = std::move(events); }
  // Turns a ready standby into a rank. Error: it is gone.
  Status give_order(const wire::StandbyOrder& order);

  void signal_group(int signal);
  void kill();  // the whole tree, with its guardian if that does not answer
  [[nodiscard]] pid_t guardian() const { return guardian_.identity.pid; }
  [[nodiscard]] pid_t pid() const { return pid_; }  // 0 until it has started
  [[nodiscard]] bool standby_ready() const { return ready_; }
  [[nodiscard]] bool is_clear() const { return clear_; }
  [[nodiscard]] const std::optional<os::ExitStatus>& status() const { return status_; }

 private:
  explicit RankProcess(Loop& loop) : loop_(loop) {}
  void on_output(os::Fd& fd);
  bool on_message();  // false: no message
  void on_guardian_end();
  void on_standby();
  void tell_guardian(const GuardianOrder& order);
  void end_guardian();  // it does not do what it was asked: we do it
  void drain();
  void set_exit(int raw);
  void settle();  // after the guardian's end: adopted orphans are killed, then `clear`

  Loop& loop_;
  Events events_;
  os::Child guardian_;
  os::Fd out_, err_, socket_, standby_;
  pid_t pid_ = 0;
  bool ready_ = false, told_clear_ = false, clear_ = false;
  std::string stuck_;
  std::optional<os::ExitStatus> status_;
  Loop::Timer settle_timer_ = 0, kill_timer_ = 0;
  Instant settle_until_{};
};

// Direct children of the agent that were adopted from dead guardians: not `guardians`, not tools
// started with STOKER_TOOL=1 (gdb, py-spy).
inline constexpr const char* kToolVariable = "STOKER_TOOL";
std::vector<pid_t> adopted_children(const std::vector<pid_t>& guardians);
// A process that a tool is attached to cannot be reaped after its death: the tools go first.
void kill_tools();

}  // namespace stoker::agent
