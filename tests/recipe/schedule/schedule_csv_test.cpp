// A schedule that somebody wrote: what is wrong is named with file, line and column.
#include <doctest/doctest.h>

#include "recipe/schedule/csv.hpp"
#include "schedules.hpp"

using namespace stoker;
using namespace stoker::recipe;

namespace {

std::string verdict(const std::string& text, ScheduleLimits limits = {}) {
  const auto schedule = parse_schedule_csv(text, "s.csv");
  if (!schedule) return schedule.error().message();
  const Status valid = validate(*schedule, limits);
  return valid ? "valid" : valid.error().message();
}

}  // namespace

// As torch.distributed.pipelining writes them: idle time is an empty cell.
TEST_CASE("schedule csv: a file of torch's form -> read, padding skipped") {
  const auto s = parse_schedule_csv("0F0,0F1,,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,,\n", "s.csv");
  REQUIRE(s.has_value());
  CHECK(s->micro_batches == 2);
  CHECK(s->rank_of_stage == std::vector<std::uint32_t>{0, 1});
  CHECK(s->ranks[1][0] == PipelineOp{OpKind::Forward, 1, 0});
  CHECK(s->ranks[1][0].line == 2);
  CHECK(s->ranks[1][0].column == 2);
  CHECK(validate(*s).has_value());
  CHECK(render_schedule_csv(*s) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
}

TEST_CASE("schedule csv: a deadlock -> the operations that wait for each other") {
  CHECK(
      verdict("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n") ==
      "deadlock: rank 0 cannot run s.csv:1:5: 0B0: it waits for s.csv:2:9: 1B0, which rank 1 runs "
      "after 1F1; rank 1 cannot run s.csv:2:5: 1F1: it waits for s.csv:1:9: 0F1, which rank 0 "
      "runs after 0B0");
  CHECK(verdict("1F0,0F0,0B0,1B0\n") ==
        "deadlock: rank 0 cannot run s.csv:1:1: 1F0: it waits for s.csv:1:5: 0F0, which stands "
        "behind it");
}

TEST_CASE("schedule csv: wrong counts and order -> the operation is named") {
  CHECK(verdict("0F0,0F0,0B0\n") == "s.csv:1:5: 0F0: stands twice");
  CHECK(verdict("0F0,0F1,0B0\n") == "s.csv: 0B1 is missing on rank 0");
  CHECK(verdict("0F0,0I0\n") == "s.csv: 0W0 is missing on rank 0");
  CHECK(verdict("0F0,0W0,0I0\n") == "s.csv:1:5: 0W0: stands before its input gradient 0I0");
  CHECK(verdict("0B0,0F0\n") == "s.csv:1:1: 0B0: stands before its forward 0F0");
  CHECK(verdict("0F0,0B0,0I0\n") ==
        "s.csv:1:9: 0I0: and 0B0 exclude each other: either B, or I and W");
}

TEST_CASE("schedule csv: more activations than a rank may hold -> the first one too many") {
  CHECK(verdict("0F0,0F1,0F2,0B0,0B1,0B2\n", {2}) ==
        "s.csv:1:9: 0F2: needs activation 3 on rank 0, which may hold 2");
  CHECK(verdict("0F0,0F1,0B0,0F2,0B1,0B2\n", {2}) == "valid");
  CHECK(verdict("0F0,0F1,0I0,0F2,0W0,0I1,0W1,0I2,0W2\n", {2}) ==
        "s.csv:1:13: 0F2: needs activation 3 on rank 0, which may hold 2");
}

TEST_CASE("schedule csv: stages -> each on one rank, without a gap") {
  CHECK(verdict("0F0,0B0\n0F1,0B1\n") ==
        "s.csv:2:1: 0F1: stage 0 is on rank 0 already; a stage belongs to one rank");
  CHECK(verdict("0F0,0B0\n2F0,2B0\n") ==
        "s.csv: stage 1 has no operation; stages are numbered from 0 without a gap");
  for (const char* text : {"0F0,0B0\n,,\n", "0F0,0B0\n\n,\n"})
    CHECK(verdict(text) == "s.csv:2: rank 1 has no operation; every rank needs a stage");
  CHECK(verdict("\n0F0,0B0\n") == "s.csv:1: rank 0 has no operation; every rank needs a stage");
}

TEST_CASE("schedule csv: hostile text -> one line with its place") {
  CHECK(verdict("") == "s.csv: has no operation; write a line a rank, like 0F0,0B0");
  CHECK(verdict("\n,,,\n") == "s.csv: has no operation; write a line a rank, like 0F0,0B0");
  CHECK(verdict("0F0, 0X0\n") ==
        "s.csv:1:6: expected an operation like 2F0, 2B0, 2I0 or 2W0, got \"0X0\"");
  for (const char* cell :
       {"F0", "0F", "0", "0F-1", "0F0x", "99999999999F0", "0F1000000", "-1F0", "\"0F0\""})
    CHECK_MESSAGE(verdict(cell).find("s.csv:1:1: expected an operation") == 0, cell);
  CHECK(verdict("0SEND_F0\n").find("SEND_F: stoker adds transfers") != std::string::npos);
  CHECK(verdict("70000F0\n").find("too many stages") != std::string::npos);
  CHECK(verdict("0F999999\n1F0\n2F0\n3F0\n4F0\n").find("are too many") != std::string::npos);
  std::string many;
  for (int i = 0; i < 513; ++i) many += "\n0F0";
  CHECK(verdict(many) == "s.csv: more than 512 ranks");
  CHECK(verdict(std::string("0F0,\0", 5)).find("expected an operation") != std::string::npos);
}
