// Transfers, slots and reductions.
#include <algorithm>
#include <doctest/doctest.h>

#include "schedules.hpp"

using namespace stoker;
using namespace stoker::recipe;
using namespace stoker::recipe::test;

TEST_CASE("passes: 1F1B without order -> blocking sends face each other; ordered they do not") {
  PipelineSchedule s = made(ScheduleKind::OneFOneB, 2, 3);
  insert_transfers(s);
  const Status facing = check_transfers(s, Channel::Blocking);
  REQUIRE_FALSE(facing.has_value());
  CHECK(facing.error().what ==
        "deadlock of transfers: rank 0 waits in 0SEND_F1, rank 1 waits in 1SEND_B0");
  CHECK(check_transfers(s, Channel::Buffered).has_value());
  REQUIRE(order_transfers(s).has_value());
  CHECK(check_transfers(s, Channel::Blocking).has_value());
}

TEST_CASE("passes: sends in another order than receives -> refused, also with buffers") {
  PipelineSchedule s = made(ScheduleKind::OneFOneB, 2, 2);
  s.ranks[1] = {{OpKind::Forward, 1, 1},
                {OpKind::Backward, 1, 1},
                {OpKind::Forward, 1, 0},
                {OpKind::Backward, 1, 0}};
  s.ranks[0] = {{OpKind::Forward, 0, 0},
                {OpKind::Forward, 0, 1},
                {OpKind::Backward, 0, 1},
                {OpKind::Backward, 0, 0}};
  REQUIRE(validate(s).has_value());
  PipelineSchedule plain = s;
  insert_transfers(plain);
  const Status other = check_transfers(plain, Channel::Buffered);
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().what == "rank 1 waits for 0SEND_F1 of rank 0, which sent 0SEND_F0 first");
  CHECK(lower(s, false).has_value());
}

TEST_CASE(
    "passes: ZB-V -> nothing is sent at the turn of the V, the tied embedding is on one rank") {
  const PipelineSchedule s = lower(made(ScheduleKind::ZbV, 4, 8, 2), true).value();
  for (const auto& ops : s.ranks)
    for (const PipelineOp& op : ops) {
      CHECK(op.kind != OpKind::ReduceTied);
      CHECK_FALSE((op.kind == OpKind::SendForward && op.stage == 3));
      CHECK_FALSE((op.kind == OpKind::SendBackward && op.stage == 4));
    }
}

TEST_CASE("passes: a tied embedding summed in mid-step -> would deadlock; at the end it does not") {
  PipelineSchedule s = lower(made(ScheduleKind::Interleaved, 2, 2, 2), true).value();
  auto& ops = s.ranks[1];  // moved to where stage 3 ends
  const PipelineOp tied{OpKind::ReduceTied, 3, 0};
  const auto at = std::find(ops.begin(), ops.end(), tied);
  REQUIRE(at != ops.end());
  ops.erase(at);
  ops.insert(std::find(ops.begin(), ops.end(), PipelineOp{OpKind::Backward, 3, 1}) + 1, tied);
  CHECK_FALSE(check_transfers(s, Channel::Buffered).has_value());
}

TEST_CASE("passes: BLOOM's schedule -> validated and lowered quickly") {
  const PipelineSchedule s = made(ScheduleKind::ZbV, 12, 49, 2);
  CHECK(validate(s, {24}).has_value());
  CHECK_FALSE(validate(s, {23}).has_value());
  CHECK(lower(s, true).has_value());
}
