// The clocks of logs: the stamps of many programs, none, missing years, zones, jumps.
#include "diagnose/input/log_clock.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/time.hpp"
#include "diagnose/parse/iteration_line.hpp"
#include "diagnose/parse/phase_line.hpp"

using namespace stoker;
using namespace stoker::diagnose;

namespace {

std::int64_t ms(const std::string& time) {
  return parse_rfc3339(time)->time_since_epoch() / std::chrono::milliseconds(1);
}

std::string told(std::string_view line) {
  const auto time = read_line_time(line);
  if (!time) return "none";
  return format_rfc3339(WallTime(std::chrono::milliseconds(time->ms)), true) +
         (time->zoned ? "" : " unzoned") + (time->has_year ? "" : " no year");
}

std::string at(LogClock& clock, const std::string& line) {
  const auto metrics = parse_iteration_line(line);
  return format_rfc3339(
      WallTime(std::chrono::milliseconds(clock.line(line, metrics ? &*metrics : nullptr))));
}

bool has_note(const LogClock& clock, const std::string& part) {
  for (const auto& note : clock.notes())
    if (note.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("line_time: stamps as programs print them") {
  CHECK(told("[2021-08-12 08:19:28,225] [INFO] x") == "2021-08-12T08:19:28.225Z unzoned");
  CHECK(told("2023-11-10T15:06:10.994+08:00 INFO [train.py]") == "2023-11-10T07:06:10.994Z");
  CHECK(told("1: 2025-03-04 00:44:44,441 - root - INFO") == "2025-03-04T00:44:44.441Z unzoned");
  CHECK(told("(pretraining, pid=4112) [NeMo I 2025-05-22 20:31:49 x:4] y") ==
        "2025-05-22T20:31:49.000Z unzoned");
  CHECK(told("[Sat Mar  4 04:25:12 2023] INFO: task") == "2023-03-04T04:25:12.000Z unzoned");
  CHECK(told("Jun 10 03:09:55 phx8 kernel: NVRM") == "1972-06-10T03:09:55.000Z unzoned no year");
  CHECK(told("E1218 20:27:21.426415540 12 x.cc:1] y") ==
        "1972-12-18T20:27:21.426Z unzoned no year");
  CHECK(told("  0: :::MLLOG {\"namespace\": \"\", \"time_ms\": 1696564728839, \"key\": 1}") ==
        "2023-10-06T03:58:48.839Z");
  CHECK(told("slurmstepd: error: *** STEP 2545.7 ON a CANCELLED AT 2024-04-19T14:08:52 DUE TO") ==
        "2024-04-19T14:08:52.000Z unzoned");
  CHECK(told("2024/03/07 15:27:02 start") == "2024-03-07T15:27:02.000Z unzoned");
  for (const char* none :
       {"", "iteration 2023 of 100", "2023-13-01 00:00:00 x", "2023-02-30 10:00:00 x",
        "1969-07-20 20:17:40 landed", "v2023-10-10 10:10:1", "May 1st", "x2023-01-01 10:10:10"})
    CHECK_MESSAGE(told(none) == "none", none);
}

TEST_CASE("log_clock: iterations without stamps -> their durations move it, stamps correct it") {
  LogClock clock({});
  CHECK(at(clock, "2026-05-01 10:00:00 start") == "2026-05-01T10:00:00Z");
  CHECK(at(clock, " iteration 1/ 10 | elapsed time per iteration (ms): 60000.0 | lm loss: 2.0 |") ==
        "2026-05-01T10:01:00Z");
  CHECK(at(clock, " iteration 3/ 10 | elapsed time per iteration (ms): 60000.0 | lm loss: 2.0 |") ==
        "2026-05-01T10:03:00Z");
  CHECK(at(clock, "2026-05-01 10:02:30 a warning") == "2026-05-01T10:03:00Z");
  CHECK(at(clock, "2026-05-01 10:20:00 more") == "2026-05-01T10:20:00Z");
}

TEST_CASE("log_clock: no time at all -> counted from nothing, and said") {
  LogClock clock({});
  at(clock, " iteration 1/ 10 | elapsed time per iteration (ms): 1000.0 | lm loss: 2.0 |");
  CHECK(clock.line("text", nullptr) == 1000);
  CHECK_FALSE(clock.stamped());
  CHECK(has_note(clock, "silence cannot be seen"));
}

TEST_CASE("log_clock: a clock that is set back goes on; one old line is passed over") {
  LogClock clock({});
  at(clock, "2026-05-01T10:00:00Z a");
  at(clock, "2026-05-01T11:00:00Z b");
  CHECK(at(clock, "2025-01-01T00:00:00Z quoted") == "2026-05-01T11:00:00Z");
  CHECK(at(clock, "2026-05-01T11:00:05Z c") == "2026-05-01T11:00:05Z");
  for (int i = 0; i < 4; ++i) at(clock, fmt::format("2026-05-01T09:17:0{}Z d", i));
  CHECK(at(clock, "2026-05-01T09:17:12Z e") == "2026-05-01T11:00:15Z");
  CHECK(has_note(clock, "the clock jumps back by 1h 43min"));
}

TEST_CASE("log_clock: years missing -> the file's, and the next one behind New Year") {
  LogClock clock({0, ms("2026-01-02T00:00:00Z")});
  CHECK(at(clock, "Dec 31 23:59:00 n03 kernel: a") == "2025-12-31T23:59:00Z");
  CHECK(at(clock, "Jan  1 00:01:00 n03 kernel: b") == "2026-01-01T00:01:00Z");
  CHECK(has_note(clock, "dates without a year"));
  LogClock leap({0, ms("2024-06-01T00:00:00Z")});
  CHECK(at(leap, "Feb 29 10:00:00 n03 kernel: a") == "2024-02-29T10:00:00Z");
  CHECK(at(leap, "Mar  1 10:00:00 n03 kernel: b") == "2024-03-01T10:00:00Z");
  LogClock plain({0, ms("2025-06-01T00:00:00Z")});
  CHECK(at(plain, "Mar  1 10:00:00 n03 kernel: b") == "2025-03-01T10:00:00Z");
}

TEST_CASE("log_clock: times of another zone -> shifted, and said; --zone holds for those without") {
  LogClock clock({});
  at(clock, "[2026-05-01 18:00:00] local time");
  CHECK(at(clock, "2026-05-01T10:00:30Z told in UTC, and beside it") == "2026-05-01T18:00:30Z");
  CHECK(has_note(clock, "another time zone is assumed"));
  LogClock zoned({8 * 3'600'000, 0});
  CHECK(at(zoned, "[2026-05-01 18:00:00] x") == "2026-05-01T10:00:00Z");
}

TEST_CASE("phase_line: what begins and ends an evaluation, a save, a load") {
  const auto mark = [](std::string_view line) {
    const auto found = parse_phase_line(line);
    return found ? static_cast<int>(found->mark) : -1;
  };
  const auto is = [&](std::string_view line, PhaseMark wanted) {
    CHECK_MESSAGE(mark(line) == static_cast<int>(wanted), line);
  };
  is(" loading checkpoint from /ckpt at iteration 100", PhaseMark::LoadBegins);
  is("  successfully loaded checkpoint from /ckpt at iteration 100", PhaseMark::LoadEnds);
  const char* restored = "Restored all states from the checkpoint at ck/epoch=0-step=50.ckpt";
  is(restored, PhaseMark::LoadEnds);
  CHECK(parse_phase_line(restored)->iteration == 50);
  is("saving checkpoint at iteration     100 to /ckpt", PhaseMark::SaveBegins);
  is("  successfully saved checkpoint at iteration     100 to /ckpt", PhaseMark::SaveEnds);
  is("** Starting validation **", PhaseMark::EvaluationBegins);
  is("** Finished validation **", PhaseMark::EvaluationEnds);
  is(" validation loss at iteration 1000 | lm loss value: 2 |", PhaseMark::EvaluationEnds);
  is(":::MLLOG {\"time_ms\": 1, \"key\": \"eval_start\"}", PhaseMark::EvaluationBegins);
  is(":::MLLOG {\"time_ms\": 1, \"key\": \"run_stop\"}", PhaseMark::Leaves);
  CHECK(parse_phase_line("  successfully saved checkpoint at iteration     100 to /x")->iteration ==
        100);
  CHECK(parse_phase_line("Async checkpoint save for step 48 finalized successfully.")->iteration ==
        48);
  CHECK(mark("iteration 5/ 10 | lm loss: 2 |") == -1);
  CHECK(mark("the validation of this text is not an end") == -1);
}

TEST_CASE("phase_line: saves of DeepSpeed, Lightning and what people print, with their iteration") {
  const auto is = [](std::string_view line, PhaseMark wanted, std::optional<std::uint64_t> at) {
    const auto found = parse_phase_line(line);
    REQUIRE_MESSAGE(found, line);
    CHECK_MESSAGE(found->mark == wanted, line);
    CHECK_MESSAGE(found->iteration == at, line);
  };
  is("[2023-05-04 10:00:00,123] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint "
     "global_step100 is ready now!",
     PhaseMark::SaveEnds, 100);
  is("[INFO] [logging.py:96:log_dist] [Rank 0] [Torch] Checkpoint global_step100 is about to be "
     "saved!",
     PhaseMark::SaveBegins, 100);
  is("Epoch 0, global step 250: 'val_loss' reached 0.71 (best 0.71), saving model to "
     "'/x/checkpoints/epoch=0-step=250.ckpt' as top 1",
     PhaseMark::SaveBegins, 250);
  is("Saved checkpoint to /ckpt/step_451.pt", PhaseMark::SaveEnds, 451);
  is("checkpoint saved at iteration 60", PhaseMark::SaveEnds, 60);
  is("checkpoint saved", PhaseMark::SaveEnds, std::nullopt);
  for (const char* line :
       {"Resuming from saved checkpoint at step 100", "no saved checkpoint found",
        "Failed: checkpoint saved at step 3 is damaged", "Loaded checkpoint step_4.pt",
        "removing saved checkpoint step_5.pt"})
    CHECK_MESSAGE(!parse_phase_line(line), line);
}
