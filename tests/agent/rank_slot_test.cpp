// One rank's output and page -> lines, events, samples.
#include "worker/agent/rank_slot.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

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
};
}  // namespace

TEST_CASE("slot: an event line of the training -> the event, and still in the log") {
  Heard h;
  h.slot.feed(1, "stoker-event {\"kind\":\"checkpoint_saved\",\"iteration\":7}\n", monotonic_now());
  REQUIRE(h.events.size() == 1);
  CHECK(std::get<wire::CheckpointSaved>(h.events[0]).iteration.value == 7);
  CHECK(h.merged.starts_with("[n01:3] stoker-event {"));
}

TEST_CASE("slot: what is the agent's own to tell, or malformed -> refused with a notice") {
  Heard h;
  h.slot.feed(1, "stoker-event {\"kind\":\"goodbye\",\"lead\":true}\nstoker-event {broken\n",
              monotonic_now());
  REQUIRE(h.events.size() == 2);
  CHECK(std::holds_alternative<wire::Notice>(h.events[0]));
  CHECK(std::holds_alternative<wire::Notice>(h.events[1]));
  h.slot.feed(2, "stoker-event {\"kind\":\"checkpoint_saved\"}\n", monotonic_now());
  CHECK(h.events.size() == 2);  // stderr is only a log
}

TEST_CASE("slot: an iteration line -> progress; completed iterations are told once") {
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
  const std::string path = "/tmp/stoker-slot-test." + std::to_string(::getpid());
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
  ::unlink(path.c_str());
}

TEST_CASE("slot: a lot of output -> its last 2 KiB") {
  Heard h;
  for (int i = 0; i < 1000; ++i)
    h.slot.feed(1, "line " + std::to_string(i) + "\n", monotonic_now());
  CHECK(h.slot.last_lines().size() <= 2048);
  CHECK(h.slot.last_lines().ends_with("line 999\n"));
}
