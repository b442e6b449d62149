// One rank's output and page -> lines, events, samples.
#include "worker/agent/rank/rank_slot.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::agent;

namespace {
struct Heard {
  std::string raw, merged;
  std::vector<wire::AgentBody> events;
  diagnose::ProgressReader reader = *diagnose::ProgressReader::make({});
  RankSlot slot{NodeName("n01"),
                Rank(3),
                Attempt(2),
                reader,
                {[this](std::string_view b) { raw.append(b); },
                 [this](std::string_view l) { merged.append(l); },
                 [this](wire::AgentBody e) { events.push_back(std::move(e)); }}};

  void tell(const std::string& json, int stream = 1) {  // as stoker-train does
    slot.feed(stream, "stoker-event " + slot.event_word() + " " + json + "\n", monotonic_now());
  }
};
}  // namespace

TEST_CASE("slot: an event line of the training -> the event, and still in the log") {
  Heard h;
  h.slot.feed(1, " iteration 8/ 100 | lm loss: 2.5E+00 |\n", monotonic_now());
  h.tell("{\"kind\":\"checkpoint_saved\",\"iteration\":7}");
  REQUIRE(h.events.size() == 1);
  CHECK(std::get<wire::CheckpointSaved>(h.events[0]).iteration.value == 7);
  CHECK(h.merged.find("\n[n01:3] stoker-event (hidden) {") != std::string::npos);
}

// What a training prints of its data.
TEST_CASE("slot: an event line without the word of this rank and attempt -> text, no event") {
  Heard h, other;
  const std::string json =
      "{\"kind\":\"numbers_differ\",\"iteration\":3,\"check\":\"replay\",\"what\":\"x\","
      "\"ranks\":[0],\"outvoted\":true,\"repaired\":false}";
  CHECK(h.slot.event_word().size() == 32);
  CHECK(h.slot.event_word() != other.slot.event_word());
  const std::string word = h.slot.event_word();
  for (const std::string& line :
       {"stoker-event " + json, "stoker-event  " + json, "stoker-event (hidden) " + json,
        "stoker-event " + other.slot.event_word() + " " + json,
        "stoker-event " + word.substr(0, 31) + " " + json, "stoker-event " + word + json,
        "sample: stoker-event " + word + " " + json})
    h.slot.feed(1, line + "\n", monotonic_now());
  CHECK(h.events.empty());
  CHECK(h.merged.find("[n01:3] stoker-event {\"kind\":\"numbers_differ\"") != std::string::npos);
  h.tell(json);
  REQUIRE(h.events.size() == 1);
  CHECK(std::holds_alternative<wire::NumbersDiffer>(h.events[0]));
}

TEST_CASE("slot: a training prints its environment -> its word is in no log, in any pieces") {
  const std::string before = "environ: STOKER_EVENT_WORD=";
  for (const int stream : {1, 2})
    for (std::size_t piece = 1; piece < 80; ++piece) {
      Heard h;
      const std::string word = h.slot.event_word();
      const std::string half = word.substr(0, 16);
      const std::string printed = before + word + word + "\n" + half + "\n" + half;
      for (std::size_t at = 0; at < printed.size(); at += piece)
        h.slot.feed(stream, printed.substr(at, piece), monotonic_now());
      h.slot.finish(monotonic_now());
      const std::string hidden = before + "(hidden)(hidden)";
      REQUIRE(h.raw == hidden + "\n" + half + "\n" + half);
      REQUIRE(h.merged == "[n01:3] " + hidden + "\n[n01:3] " + half + "\n[n01:3] " + half + "\n");
      REQUIRE(h.slot.last_lines() == hidden + "\n" + half + "\n" + half + "\n");
    }
}

TEST_CASE("slot: a duration or a size that cannot be -> bounded before it is printed") {
  Heard h;
  h.slot.feed(1, " iteration 8/ 100 | lm loss: 2.5E+00 |\n", monotonic_now());
  for (const char* seconds : {"1e300", "-1e300"})
    h.tell(std::string("{\"kind\":\"checkpoint_saved\",\"iteration\":7,"
                       "\"bytes\":18446744073709551615,\"seconds\":") +
           seconds + "}");
  REQUIRE(h.events.size() == 2);
  const auto& longest = std::get<wire::CheckpointSaved>(h.events[0]);
  CHECK(longest.seconds == 366 * 86400);
  CHECK(longest.bytes == 1ull << 60);
  CHECK(std::get<wire::CheckpointSaved>(h.events[1]).seconds == 0);
}

TEST_CASE("slot: an event line names a checkpoint that the rank has not reached -> a notice") {
  Heard h;
  const auto claim = [&h](int iteration) {
    h.events.clear();
    h.tell("{\"kind\":\"checkpoint_saved\",\"iteration\":" + std::to_string(iteration) + "}");
    REQUIRE(h.events.size() == 1);
    return std::holds_alternative<wire::CheckpointSaved>(h.events[0]);
  };
  CHECK_FALSE(claim(1));
  h.slot.feed(1, " iteration 8/ 100 | lm loss: 2.5E+00 |\n", monotonic_now());
  CHECK(claim(8));
  CHECK_FALSE(claim(9));
  const std::string path = "/dev/shm/stoker.test-claim." + std::to_string(::getpid());
  auto page = wire::HeartbeatPage::create(path);
  REQUIRE(page);
  auto own = wire::HeartbeatPage::open(path);
  ::unlink(path.c_str());
  REQUIRE(own);
  h.slot.attach_page(std::move(*page));
  wire::Heartbeat beat;
  beat.attempt = Attempt(1);
  beat.iteration = Iteration(50);
  own->write(beat);
  CHECK_FALSE(claim(20));  // the page of another attempt
  beat.attempt = Attempt(2);
  own->write(beat);
  CHECK(claim(50));  // no sample of it was taken yet
  CHECK_FALSE(claim(51));
}

TEST_CASE("slot: what is the agent's own to tell, or malformed -> refused with a notice") {
  Heard h;
  h.tell("{\"kind\":\"goodbye\",\"lead\":true}");
  h.tell("{broken");
  REQUIRE(h.events.size() == 2);
  CHECK(std::holds_alternative<wire::Notice>(h.events[0]));
  CHECK(std::holds_alternative<wire::Notice>(h.events[1]));
  h.tell("{\"kind\":\"checkpoint_saved\"}", 2);
  CHECK(h.events.size() == 2);  // stderr is only a log
}

TEST_CASE("slot: an iteration line -> progress; completed iterations are reported once") {
  Heard h;
  const std::string line =
      " iteration {}/ 100 | consumed samples: 8 | elapsed time per iteration (ms): 20.0 | "
      "learning rate: 1.000E-04 | global batch size: 8 | lm loss: 2.5E+00 |\n";
  for (const char* n : {"4", "5"}) {
    std::string text = line;
    h.slot.feed(1, text.replace(text.find("{}"), 2, n), monotonic_now());
  }
  const auto sample = h.slot.take_sample(monotonic_now());
  CHECK(sample.reported);
  CHECK_FALSE(sample.page);
  CHECK(sample.iteration.value == 5);
  CHECK(sample.total == 100);
  CHECK(sample.completed == 2);
  CHECK(sample.phase == wire::Phase::Iteration);
  CHECK(h.slot.take_sample(monotonic_now()).completed == 0);
}

TEST_CASE("slot: a page of another attempt -> ignored; of this one -> an edge") {
  Heard h;
  const testing::Folder folder;
  const std::string path = folder / "page";
  auto page = wire::HeartbeatPage::create(path);
  REQUIRE(page);
  auto writer = wire::HeartbeatPage::open(path);
  REQUIRE(writer);
  h.slot.attach_page(std::move(*page));
  wire::Heartbeat beat;
  beat.attempt = Attempt(1);
  writer->write(beat);
  CHECK_FALSE(h.slot.look(monotonic_now()));
  beat.attempt = Attempt(2);
  beat.iteration = Iteration(9);
  writer->write(beat);
  CHECK(h.slot.look(monotonic_now()));
  CHECK_FALSE(h.slot.look(monotonic_now()));
  CHECK(h.slot.speaks_page());
  CHECK(h.slot.sample().iteration.value == 9);
}

TEST_CASE("slot: a page that begins at 51 -> one iteration is done, not 51") {
  Heard h;
  const testing::Folder folder;
  auto page = wire::HeartbeatPage::create(folder / "page");
  REQUIRE(page);
  auto writer = wire::HeartbeatPage::open(folder / "page");
  REQUIRE(writer);
  h.slot.attach_page(std::move(*page));
  wire::Heartbeat beat;
  beat.attempt = Attempt(2);
  writer->write(beat);
  CHECK(h.slot.look(monotonic_now()));
  beat.phase = wire::Phase::Iteration;
  beat.iteration = Iteration(53);
  beat.phase_steps = 3;  // 51, 52 and 53
  writer->write(beat);
  CHECK(h.slot.look(monotonic_now()));
  CHECK(h.slot.take_sample(monotonic_now()).completed == 3);
  beat.iteration = Iteration(60);
  beat.phase_steps = 10;
  writer->write(beat);
  CHECK_FALSE(h.slot.look(monotonic_now()));
  CHECK(h.slot.take_sample(monotonic_now()).completed == 7);
}

TEST_CASE("slot: norms on a page, of every third iteration -> each taken once") {
  Heard h;
  const testing::Folder folder;
  auto page = wire::HeartbeatPage::create(folder / "page");
  auto writer = wire::HeartbeatPage::open(folder / "page");
  h.slot.attach_page(std::move(*page));
  wire::Heartbeat beat;
  beat.attempt = Attempt(2);
  beat.loss = 2.5;
  for (std::uint64_t n = 5; n <= 14; ++n) {
    beat.iteration = Iteration(n);
    if (n % 3 == 0) {
      beat.norms_at = beat.iteration;
      beat.group_norms = {1, static_cast<float>(n)};
    }
    writer->write(beat);
    if (n == 12) continue;  // the agent looks late
    h.slot.look(monotonic_now());
    const std::vector<double> groups = h.slot.take_sample(monotonic_now()).losses.groups;
    const bool fresh = n == 6 || n == 9 || n == 13;
    CHECK(groups == (fresh ? std::vector<double>{1, n == 13 ? 12.0 : static_cast<double>(n)}
                           : std::vector<double>{}));
  }
}

TEST_CASE("slot: a lot of output -> its last 2 KiB") {
  Heard h;
  for (int i = 0; i < 1000; ++i)
    h.slot.feed(1, "line " + std::to_string(i) + "\n", monotonic_now());
  CHECK(h.slot.last_lines().size() <= 2048);
  CHECK(h.slot.last_lines().ends_with("line 999\n"));
  CHECK(h.slot.last_lines().starts_with("line "));
}

TEST_CASE(
    "slot: losses of iteration lines -> level, the highest and where, what is no number, a save") {
  Heard h;
  const auto line = [](int n, const char* loss, const char* rest = "") {
    return fmt::format(
        " iteration {}/ 100 | elapsed time per iteration (ms): 20.0 | lm loss: {} | "
        "grad norm: 0.5 | loss scale: 1024.0 |{}\n",
        n, loss, rest);
  };
  const Instant now = monotonic_now();
  h.slot.feed(1, line(4, "2.0E+00") + line(5, "5.0E+00") + line(6, "nan") + line(6, "9.0E+00"),
              now);
  h.slot.feed(1, "  successfully saved checkpoint at iteration       6 to /c\n", now);
  const RankSample taken = h.slot.take_sample(now);
  CHECK(taken.losses.count == 2);
  CHECK(taken.losses.mean == 3.5);
  CHECK(taken.losses.high == 5.0);
  CHECK(taken.losses.high_at == Iteration(5));
  CHECK(taken.losses.not_finite == 1);
  CHECK(taken.losses.scale == 1024);
  CHECK(taken.losses.gradient_norm == 0.5);
  CHECK(taken.checkpoint == Iteration(6));
  CHECK(h.slot.take_sample(now).losses == wire::StepLosses{});
}

TEST_CASE("slot: lines of a resume audit -> no progress, for any repeated number") {
  Heard h;
  const Instant now = monotonic_now();
  for (const char* word : {"", "0123456789abcdef "})
    h.slot.feed(1,
                fmt::format("stoker-event {}{{\"step\":80,\"iteration\":80,\"loss\":2.5}}\n", word),
                now);
  h.tell("{\"kind\":\"resume_audit\",\"step\":80,\"loss\":2.5}", 2);
  h.slot.feed(1, "resume audit: step-000080 passed | iteration 80/ 100 | lm loss: 2.5E+00 |\n",
              now);
  CHECK_FALSE(h.slot.take_sample(now).reported);
}

TEST_CASE("slot: a validation line -> progress, but no iteration") {
  Heard h;
  const Instant now = monotonic_now();
  h.slot.feed(1, " iteration 4/ 100 | elapsed time per iteration (ms): 20.0 | lm loss: 2.0E+00 |\n",
              now);
  h.slot.feed(1, " valid loss at iteration 4 | lm loss value: 2.3E+00 | lm loss PPL: 1.0E+01 |\n",
              now + 20min);
  const RankSample taken = h.slot.take_sample(now + 21min);
  CHECK(taken.progress_age_ms == 60'000);
  CHECK(taken.iteration == Iteration(4));
}

TEST_CASE("slot: lines of an evaluation and a save -> their phases, and back with an iteration") {
  Heard h;
  const Instant start = monotonic_now();
  const auto says = [&](const char* text, int seconds) {
    h.slot.feed(1, std::string(text) + "\n", start + std::chrono::seconds(seconds));
    return h.slot.take_sample(start + std::chrono::seconds(seconds + 1));
  };
  CHECK(says("loading checkpoint from /ckpt at iteration 3", 1).phase == wire::Phase::Load);
  CHECK(says("  successfully loaded checkpoint from /ckpt at iteration 3", 9).phase ==
        wire::Phase::Startup);
  const char* iteration = " iteration 4/ 100 | consumed samples: 8 | lm loss: 2.5E+00 |";
  CHECK(says(iteration, 10).phase == wire::Phase::Iteration);
  const auto evaluating = says("Evaluating iter 1/10", 20);
  CHECK(evaluating.phase == wire::Phase::Evaluation);
  CHECK(evaluating.phase_age_ms == 1000);
  CHECK(evaluating.reported);
  const auto again = says("Evaluating iter 2/10", 30);
  CHECK(again.phase_age_ms == 11'000);
  CHECK(again.progress_age_ms == 1000);
  CHECK(says("saving checkpoint at iteration       4 to /ckpt", 40).phase ==
        wire::Phase::Checkpoint);
  CHECK(says("  successfully saved checkpoint at iteration       4 to /ckpt", 50).phase ==
        wire::Phase::Iteration);
  CHECK(says("saving checkpoint at iteration       4 to /ckpt", 60).phase ==
        wire::Phase::Checkpoint);
  const auto on = says(" iteration 5/ 100 | consumed samples: 16 | lm loss: 2.4E+00 |", 70);
  CHECK(on.phase == wire::Phase::Iteration);
  CHECK(on.phase_age_ms == 1000);
}

TEST_CASE("slot: what was loaded -> the iterations up to the first line are completed ones") {
  Heard h;
  h.slot.feed(1, "  successfully loaded checkpoint from /ckpt at iteration 450\n", monotonic_now());
  h.slot.feed(1, " iteration 460/ 1000 | lm loss: 2.5E+00 |\n", monotonic_now());
  const auto sample = h.slot.take_sample(monotonic_now());
  CHECK(sample.iteration.value == 460);
  CHECK(sample.completed == 10);
}

TEST_CASE("slot: Lightning's bar where it resumes -> no iteration, also read before its line") {
  const char* restored = "Restored all states from the checkpoint at ck/epoch=0-step=50.ckpt\n";
  const auto bar = [](int at) {
    return fmt::format("Epoch 0:  42%|###   | {}/120 [00:00<00:00, 9.66it/s, loss=2.440]\n", at);
  };
  for (const bool in_order : {true, false}) {
    Heard h;
    if (in_order) h.slot.feed(2, restored, monotonic_now());
    h.slot.feed(1, bar(50), monotonic_now());
    if (!in_order) h.slot.feed(2, restored, monotonic_now());
    CHECK_FALSE(h.slot.take_sample(monotonic_now()).reported);
    h.slot.feed(1, bar(51) + bar(52), monotonic_now());
    CHECK(h.slot.sample().iteration.value == 52);
    CHECK(h.slot.take_sample(monotonic_now()).completed == 2);
  }
}

TEST_CASE("slot: DeepSpeed's step=0 while it starts is no iteration") {
  Heard h;
  const char* const rest = ", skipped=0, lr=[0.001], mom=[(0.9, 0.999)]\n";
  h.slot.feed(1, std::string("[Rank 0] step=0") + rest, monotonic_now());
  CHECK_FALSE(h.slot.sample().reported);
  h.slot.feed(1, std::string("[Rank 0] step=51") + rest, monotonic_now());
  CHECK(h.slot.take_sample(monotonic_now()).completed == 1);
  Heard zero;
  zero.slot.feed(1, "iter 0: loss 4.2\niter 100: loss 3.1\n", monotonic_now());
  CHECK(zero.slot.take_sample(monotonic_now()).completed == 101);
}

TEST_CASE("slot: a save without a number -> of the newest iteration; one of the folder too") {
  Heard h;
  h.slot.feed(1, " iteration 12/ 1000 | lm loss: 2.5E+00 |\ncheckpoint saved\n", monotonic_now());
  CHECK(h.slot.sample().checkpoint.value == 12);
  h.slot.note_checkpoint(Iteration(20));
  h.slot.note_checkpoint(Iteration(15));
  CHECK(h.slot.sample().checkpoint.value == 20);
  CHECK(h.slot.sample().iteration.value == 12);
  h.slot.note_last_checkpoint(Iteration(21));  // Lightning's bar ends one short after a resume
  CHECK(h.slot.sample().checkpoint.value == 21);
  CHECK(h.slot.sample().iteration.value == 21);
}
