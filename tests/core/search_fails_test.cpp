// A submission without an answer whose token cannot be looked up either: unknown stays unknown, and
// a person is alerted.
#include <algorithm>
#include <doctest/doctest.h>

#include "core/step.hpp"
#include "sim/world.hpp"

using namespace stoker;
using namespace stoker::core;

TEST_CASE("search: it fails for ten minutes -> one alert, nothing submitted; found -> over") {
  const RunName demo("demo");
  sim::World world;
  RunPolicy policy;
  policy.run = demo;
  policy.directory = "/runs/demo";
  policy.train.command = {"stoker-train"};
  const auto open = [&world] {
    return std::count_if(world.state().alerts.begin(), world.state().alerts.end(),
                         [](const auto& a) {
                           return a.second.summary.find("could not be seen whether a submission") !=
                                  std::string::npos;
                         });
  };
  REQUIRE(world.start(DaemonStarted{"build", Epoch{1}, 0ns, true}));
  world.scheduler.set_blind(true);
  world.scheduler.next_submit(sim::SimScheduler::NextSubmit::LostAnswer);
  REQUIRE(world.feed({demo, RunAdded{policy, "alice"}, {}}));
  const Instant began = world.clock.now();
  REQUIRE(world.advance_to(began + 9min));
  CHECK(open() == 0);
  REQUIRE(world.advance_to(began + 30min));
  CHECK(open() == 1);
  CHECK(world.state().runs.at(demo).jobs.supply.size() == 1);
  world.scheduler.set_blind(false);
  REQUIRE(world.advance_to(began + 35min));
  CHECK(open() == 0);
  CHECK(world.state().runs.at(demo).jobs.supply.begin()->second.job.job == 1);
}
