// Exit codes: a contract between stoker-train, its agents, the decider and scripts
// (docs/operations.md). Any other command means failure unless it exits with 0.
#pragma once

#include <string_view>

namespace stoker::wire {

// Of a rank of stoker-train.
enum class ExitCode : int {
  Finished = 0,
  Failed = 1,
  Left = 10,  // duration or signal; saved
  KillSwitch = 11,
  ExitPoint = 12,  // exit iteration or samples
  PeerLost = 20,
  CheckpointRefused = 21,
  Configuration = 22,
  DiskFull = 23,
  NumbersDiffer = 24,   // copies or repeated computations that must be equal are not
  DeviceMemory = 25,    // the model does not fit into the GPU
  DeviceFailed = 26,    // the GPU reported an error: the node's fault
  DataUnreadable = 27,  // the data cannot be read, or is not what its index says: no node's fault
};
constexpr int number_of(ExitCode code) {
  return static_cast<int>(code);
}

// Of stoker-agent, and so of a job, beside those of its ranks.
inline constexpr int kAgentUsage = 2;    // flags, environment, orders
inline constexpr int kAgentClaimed = 3;  // another job start holds the claim: nothing was started

// The training chose to end: it is over, or it saved and left.
constexpr bool is_planned_exit(int code) {
  const auto is = [code](ExitCode planned) { return code == number_of(planned); };
  return is(ExitCode::Finished) || is(ExitCode::Left) || is(ExitCode::KillSwitch) ||
         is(ExitCode::ExitPoint);
}

// The signal of an exit code as shells report it (137: 9), else 0.
constexpr int signal_of(int exit_code) {
  constexpr int kBase = 128, kLast = 64;
  return exit_code > kBase && exit_code <= kBase + kLast ? exit_code - kBase : 0;
}

// What people read of a code of stoker-train; "" = it says nothing more than its number.
constexpr std::string_view text_of(ExitCode code) {
  switch (code) {
    case ExitCode::Left: return "saved and exited";
    case ExitCode::KillSwitch: return "kill switch";
    case ExitCode::ExitPoint: return "exit iteration or samples reached";
    case ExitCode::PeerLost: return "a peer was lost";
    case ExitCode::CheckpointRefused: return "checkpoint refused";
    case ExitCode::Configuration: return "configuration";
    case ExitCode::DiskFull: return "disk full";
    case ExitCode::NumbersDiffer: return "numbers differ that must be equal";
    case ExitCode::DeviceMemory: return "out of device memory";
    case ExitCode::DeviceFailed: return "the GPU failed";
    case ExitCode::DataUnreadable: return "the data cannot be read";
    case ExitCode::Finished:
    case ExitCode::Failed: return "";
  }
  return "";
}

}  // namespace stoker::wire
