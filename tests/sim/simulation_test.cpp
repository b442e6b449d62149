// The simulator: one seed is one trace; scenarios with mistakes are refused at their position; a
// guard that is taken out is noticed.
#include <algorithm>
#include <doctest/doctest.h>

#include "sim/campaign.hpp"
#include "sim/random.hpp"

using namespace stoker;
using namespace stoker::sim;

namespace {

const char* const kScenario = R"(name: short
about: a day with crashes and lies
for: 12h
heals: 6h
cluster: {nodes: 6, queue_wait: 5min}
training: {iteration: 12s, save_every: 30, save: 20s}
policy: {nodes: 2, spares: 1, floor: 5min, restarts: 40, without_progress: 6}
faults: {rank_crash: 3h, hang_one: 5h, squeue_torn: 3h, daemon_kill: 2h, stale_lines: 1h}
)";

Scenario scenario_of(const std::string& text, configs::Diagnostics* found = nullptr) {
  configs::Diagnostics errors;
  Scenario scenario = read_scenario(text, "short.yaml", errors);
  if (found != nullptr)
    *found = errors;
  else
    CHECK(errors.empty());
  return scenario;
}

std::vector<std::string> story_of(const Scenario& scenario, std::uint64_t seed) {
  std::vector<std::string> story;
  Settings settings;
  settings.seed = seed;
  settings.trace = [&](const std::string& line) { story.push_back(line); };
  Universe(scenario, settings).live();
  return story;
}

}  // namespace

TEST_CASE("random: a seed -> the same numbers on every machine") {
  Random random(42);
  CHECK(random.next() == 1546998764402558742ull);
  CHECK(random.next() == 6990951692964543102ull);
  Duration sum{};
  for (int i = 0; i < 2000; ++i) sum += random.exponential(1h);
  CHECK(sum / 2000 > 55min);
  CHECK(sum / 2000 < 65min);
  for (int i = 0; i < 1000; ++i) CHECK(random.below(7) < 7);
}

TEST_CASE("simulation: one seed -> one trace, another seed -> another") {
  const Scenario scenario = scenario_of(kScenario);
  const auto once = story_of(scenario, 7);
  CHECK(once == story_of(scenario, 7));
  CHECK(once != story_of(scenario, 8));
  CHECK(once.size() > 50);
}

TEST_CASE("simulation: crashes and lies -> nothing breaks, and the run trains on") {
  const Scenario scenario = scenario_of(kScenario);
  Campaign campaign;
  campaign.last = 3;
  const Report report = run_campaign(scenario, campaign);
  const std::string first = report.failures.empty() ? ""
                            : report.failures[0].safety.empty()
                                ? report.failures[0].liveness.front()
                                : report.failures[0].safety.front();
  CHECK_MESSAGE(report.safety == 0, first);
  CHECK_MESSAGE(report.liveness == 0, first);
  CHECK(report.faults > 0);
  CHECK(report.ettr > 0.5);
}

TEST_CASE("simulation: a digest of another attempt without its guard -> found") {
  const Scenario scenario = scenario_of(kScenario);
  Campaign campaign;
  campaign.last = 50;
  campaign.broken = Guard::StalePhase;
  campaign.until_first = true;
  CHECK(run_campaign(scenario, campaign).safety == 1);
}

TEST_CASE("scenario: mistakes -> each with its position") {
  configs::Diagnostics errors;
  scenario_of(
      "name: x\nabout: y\nfor: -3h\nfaults: {rank_crush: 3h}\ncluster: {nodes: 2}\n"
      "policy: {nodes: 4}\nevents:\n  - {fault: rank_crash}\n",
      &errors);
  std::string text;
  for (const auto& error : errors) text += error.text() + "\n";
  CHECK(text.find("short.yaml:3:") != std::string::npos);
  CHECK(text.find("rank_crash") != std::string::npos);  // did you mean
  CHECK(text.find("fewer nodes") != std::string::npos);
  CHECK(text.find("short.yaml:8:") != std::string::npos);
}
