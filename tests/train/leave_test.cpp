// Why a training leaves: the order of precedence when several reasons meet in one step.
#include "worker/train/loop/leave.hpp"

#include <doctest/doctest.h>

#include "worker/train/loop/log_line.hpp"

using namespace stoker;
using namespace stoker::train;

TEST_CASE("leave: kill switch together with TERM -> the kill switch's exit code") {
  const LeaveReason both = stronger(LeaveReason::KillSwitch, LeaveReason::Signal);
  CHECK(plan_of(both).code == ExitCode::KillSwitch);
  CHECK(plan_of(both).save);
}

TEST_CASE("leave: a signal beside weaker reasons, or alone -> the signal") {
  CHECK(stronger(LeaveReason::None, LeaveReason::Signal) == LeaveReason::Signal);
  CHECK(stronger(LeaveReason::Duration, LeaveReason::Signal) == LeaveReason::Signal);
  CHECK(stronger(LeaveReason::Asked, LeaveReason::None) == LeaveReason::Asked);
  CHECK(stronger(LeaveReason::KillNow, LeaveReason::Signal) == LeaveReason::KillNow);
}

TEST_CASE("format_iteration_line: a window of skipped steps -> no loss field, as Megatron prints") {
  IterationLine line;
  line.iteration = Iteration(3);
  line.skipped = line.nan = 1;
  const std::string text = format_iteration_line(line);
  CHECK(text.find("lm loss") == std::string::npos);
  CHECK(text.find("| grad norm: 0.000 | number of skipped iterations:   1 |") != std::string::npos);
}
