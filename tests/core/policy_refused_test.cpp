// A reload that found RUN.yaml writable for others: the policy stays, and one alert says so.
#include <doctest/doctest.h>

#include "core/step.hpp"
#include "sim/world.hpp"

using namespace stoker;
using namespace stoker::core;

TEST_CASE("policy refused: two reloads -> the old policy, one open alert; `stoker run` ends it") {
  const RunName demo("demo");
  sim::World world;
  RunPolicy policy;
  policy.run = demo;
  policy.directory = "/runs/demo";
  policy.config_path = "/team/demo.yaml";
  policy.train.command = {"stoker-train"};
  REQUIRE(world.start(DaemonStarted{"build", Epoch{1}, 0ns, true}));
  REQUIRE(world.feed({demo, RunAdded{policy, "alice"}, {}}));
  const auto before = world.state().runs.at(demo).training;
  OperatorAsked reload;
  reload.verb = "reload";
  reload.arguments["refused"] = "/team/demo.yaml: refused: mallory can write it";
  reload.by = "SIGHUP";
  for (int i = 0; i < 2; ++i) REQUIRE(world.feed({demo, reload, {}}));
  CHECK(world.state().runs.at(demo).policy == policy);
  CHECK(world.state().runs.at(demo).training.index() == before.index());
  REQUIRE(world.state().alerts.size() == 1);
  const auto& alert = world.state().alerts.begin()->second;
  CHECK(alert.summary.find("mallory can write it") != std::string::npos);
  CHECK(alert.command == "stoker run /team/demo.yaml");
  REQUIRE(world.feed({demo, RunAdded{policy, "alice"}, {}}));
  CHECK(world.state().alerts.empty());
}
