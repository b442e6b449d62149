// Why a training leaves before its end. Rank 0 looks at the kill switch, the clock, the heartbeat
// page and the exit points; signals count on any rank. What it finds travels with the sums of the
// step, so that all ranks leave at the same iteration.
#pragma once

#include <optional>
#include <string>

#include "common/ids.hpp"
#include "recipe/train_config.hpp"
#include "worker/train/run/exit_code.hpp"
#include "worker/train/run/pulse.hpp"

namespace stoker::train {

// In order of precedence; the numbers travel between ranks.
enum class LeaveReason : int {
  None,
  KillNow,
  KillSwitch,
  Signal,
  Asked,
  Wall,
  Duration,
  ExitPoint
};

// The one that comes first in the order of precedence; None gives way to anything.
LeaveReason stronger(LeaveReason one, LeaveReason other);

struct LeavePlan {
  bool save = false;
  ExitCode code = ExitCode::Finished;
};
LeavePlan plan_of(LeaveReason reason);

// Installs handlers for TERM and USR1 that only note the signal; it is seen at the end of the step.
void watch_signals();
bool signal_seen();

struct LeaveWatch {
  recipe::ExitConfig exit;
  Instant began;                        // of the process, or of a standby's order
  std::optional<WallTime> exit_before;  // to have saved and exited
  std::string kill_switch;              // a file: save and leave; "" = none
  std::string kill_now;                 // a file: leave without saving; "" = none

  [[nodiscard]] bool switched_off() const;  // either file is there
  // What rank 0 decides after an iteration. `leaving` is what it takes to leave from here: the next
  // iteration and twice the last save.
  [[nodiscard]] LeaveReason look(const Pulse& pulse, Iteration iteration, std::uint64_t consumed,
                                 Duration leaving) const;
};

// "exiting program at iteration 12": the line that is printed.
std::string leave_line(LeaveReason reason, const LeaveWatch& watch, Iteration iteration);

}  // namespace stoker::train
