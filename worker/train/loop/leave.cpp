#include "worker/train/loop/leave.hpp"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <sys/stat.h>

namespace stoker::train {
namespace {

volatile std::sig_atomic_t noted_signal = 0;

extern "C" void note_signal(int number) {
  noted_signal = number;
}

// A switch is a regular file; anything else under that name (a symbolic link, a FIFO) does not
// count.
bool is_there(const std::string& path) {
  struct stat info {};
  return !path.empty() && ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

}  // namespace

LeaveReason stronger(LeaveReason one, LeaveReason other) {
  if (one == LeaveReason::None || other == LeaveReason::None)
    return one == LeaveReason::None ? other : one;
  return std::min(one, other);
}

LeavePlan plan_of(LeaveReason reason) {
  switch (reason) {
    case LeaveReason::None: return {false, ExitCode::Finished};
    case LeaveReason::KillNow: return {false, ExitCode::KillSwitch};
    case LeaveReason::KillSwitch: return {true, ExitCode::KillSwitch};
    case LeaveReason::Signal:
    case LeaveReason::Asked:
    case LeaveReason::Wall:
    case LeaveReason::Duration: return {true, ExitCode::Left};
    case LeaveReason::ExitPoint: return {true, ExitCode::ExitPoint};
  }
  return {};
}

void watch_signals() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGUSR1, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // a peer that is gone is an error of the call
}

bool signal_seen() {
  return noted_signal != 0;
}

bool LeaveWatch::switched_off() const {
  return is_there(kill_switch) || is_there(kill_now);
}

LeaveReason LeaveWatch::look(const Pulse& pulse, Iteration iteration, std::uint64_t consumed,
                             Duration leaving) const {
  if (is_there(kill_now) || pulse.leave() == wire::Leave::LeaveNow) return LeaveReason::KillNow;
  if (is_there(kill_switch)) return LeaveReason::KillSwitch;
  if (pulse.leave() == wire::Leave::SaveAndLeave) return LeaveReason::Asked;
  if (exit_before && wall_now() + leaving >= *exit_before) return LeaveReason::Wall;
  if (exit.duration && monotonic_now() - began >= *exit.duration) return LeaveReason::Duration;
  if ((exit.iteration && iteration.value >= *exit.iteration) ||
      (exit.samples && consumed >= *exit.samples))
    return LeaveReason::ExitPoint;
  return LeaveReason::None;
}

std::string leave_line(LeaveReason reason, const LeaveWatch& watch, Iteration iteration) {
  switch (reason) {
    case LeaveReason::None: return "";
    case LeaveReason::KillNow:
    case LeaveReason::KillSwitch: {
      const std::string& path = is_there(watch.kill_now) ? watch.kill_now : watch.kill_switch;
      if (path.empty()) return "asked to exit without saving. Exiting";
      return fmt::format("Detected kill switch at {}. Exiting", path);
    }
    case LeaveReason::Signal:
      return fmt::format("exiting program at iteration {}: signal received", iteration.value);
    case LeaveReason::Asked:
      return fmt::format("exiting program at iteration {}: asked to save and exit",
                         iteration.value);
    case LeaveReason::Wall:
      return fmt::format("exiting program at iteration {}: the time limit is near",
                         iteration.value);
    case LeaveReason::Duration:
      return fmt::format("exiting program after {:.1f} minutes",
                         to_seconds(monotonic_now() - watch.began) / 60);
    case LeaveReason::ExitPoint:
      return fmt::format("exiting program at iteration {}", iteration.value);
  }
  return "";
}

}  // namespace stoker::train
