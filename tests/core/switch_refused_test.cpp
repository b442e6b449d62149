// Refused switch files: a member of the group can make names without end.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/step.hpp"
#include "sim/world.hpp"

using namespace stoker;
using namespace stoker::core;

namespace {

const RunName kDemo("demo");

void start(sim::World& world) {
  RunPolicy policy;
  policy.run = kDemo;
  policy.directory = "/runs/demo";
  policy.train.command = {"stoker-train"};
  REQUIRE(world.start(DaemonStarted{"build", Epoch{1}, 0ns, true}));
  REQUIRE(world.feed({kDemo, RunAdded{policy, "alice"}, {}}));
}

std::size_t sent(sim::World& world) {
  std::size_t count = 0;
  const auto rows = world.journal.rows_after(Sequence{}, 100000);
  REQUIRE(rows);
  for (const JournalRow& row : *rows)
    for (const Action& action : row.decision.actions)
      if (const auto* alert = std::get_if<SendAlert>(&action);
          alert != nullptr && alert->alert_kind == "switch_refused")
        ++count;
  return count;
}

}  // namespace

TEST_CASE("switch refused: a hundred names -> one open alert that names the newest, sent once") {
  sim::World world;
  start(world);
  for (int i = 0; i < 100; ++i)
    REQUIRE(world.feed({kDemo, SwitchRefused{fmt::format("junk{}", i), "no such switch"}, {}}));
  REQUIRE(world.state().alerts.size() == 1);
  CHECK(world.state().alerts.begin()->second.summary.find("junk99") != std::string::npos);
  CHECK(sent(world) == 1);
}

TEST_CASE("switch refused: the next one is obeyed -> the alert is over") {
  sim::World world;
  start(world);
  REQUIRE(world.feed({kDemo, SwitchRefused{"stop", "it is a symbolic link"}, {}}));
  OperatorAsked asked;
  asked.verb = "pause";
  asked.by = "bob";
  asked.via = "switch file";
  REQUIRE(world.feed({kDemo, asked, {}}));
  CHECK(world.state().alerts.empty());
}
