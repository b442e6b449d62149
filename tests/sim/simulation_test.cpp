// The simulator: one seed is one trace; scenarios with mistakes are refused at their position; a
// guard that is taken out is noticed.
#include <algorithm>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <map>

#include "common/os/files.hpp"
#include "sim/universe/campaign.hpp"
#include "sim/universe/random.hpp"

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

// A scenario of the product.
Scenario shipped(const std::string& name) {
  const auto text = os::read_file(fmt::format("{}/sim/scenarios/{}.yaml", STOKER_SOURCE_DIR, name));
  REQUIRE(text);
  return scenario_of(*text);
}

// What the first seed that failed broke; "" = none failed.
std::string first_of(const Report& report) {
  if (report.failures.empty()) return "";
  const auto& failure = report.failures.front();
  return failure.safety.empty() ? failure.liveness.front() : failure.safety.front();
}

std::vector<std::string> story_of(const Scenario& scenario, std::uint64_t seed) {
  std::vector<std::string> story;
  Settings settings;
  settings.seed = seed;
  settings.trace = [&](const std::string& line) { story.push_back(line); };
  Universe(scenario, settings).live();
  return story;
}

// Each guard taken out alone: a seed of the campaign breaks a promise, in these words.
void check_caught(const Scenario& scenario, Campaign campaign,
                  const std::map<Guard, std::string>& guards) {
  for (const auto& guard : guards) {
    campaign.broken = guard.first;
    const Report report = run_campaign(scenario, campaign);
    INFO(name_of(guard.first));
    REQUIRE(report.failures.size() == 1);
    const std::string found = report.failures.front().safety.front();
    CHECK_MESSAGE(found.find(guard.second) != std::string::npos, found);
  }
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

TEST_CASE("scenario: chaos.yaml and script.yaml -> every fault and every liar is on") {
  Scenario chaos = shipped("chaos");
  chaos.every.merge(shipped("script").every);
  for (std::size_t i = 0; i < kFaults; ++i) {
    INFO(EnumNames<Fault>::names.at(i));
    CHECK(chaos.every.contains(static_cast<Fault>(i)));
  }
}

TEST_CASE("simulation: checkpoints without the guards of what is kept -> found") {
  const Scenario scenario = scenario_of(
      "name: keep\nabout: saves that are torn, losses that diverge\nfor: 3d\nheals: 6h\n"
      "cluster: {nodes: 6, queue_wait: 5min}\n"
      "training: {iteration: 12s, save_every: 30, save: 20s}\n"
      "policy: {nodes: 2, spares: 1, floor: 5min, restarts: 40, without_progress: 6, keep_last: 3, "
      "pin: [1500, 3000, 6000], rollback: true, rollback_at_most: 3}\n"
      "faults: {rank_crash: 6h, torn_save: 3h, loss_diverges: 10h}\n");
  Campaign campaign;
  campaign.last = 4;
  CHECK(run_campaign(scenario, campaign).safety == 0);
  campaign.last = 200;
  campaign.until_first = true;
  const std::map<Guard, std::string> guards{{Guard::KeepGood, "good checkpoints of"},
                                            {Guard::KeepPinned, "deletes step-"},
                                            {Guard::RollbackPin, "past the pinned"},
                                            {Guard::VerifyCheckpoint, "which is damaged"}};
  check_caught(scenario, campaign, guards);
}

TEST_CASE("simulation: copies on another disk -> nothing is deleted before; without that, found") {
  const Scenario scenario = scenario_of(
      "name: copies\nabout: every second save is copied away, slowly\nfor: 3d\nheals: 6h\n"
      "cluster: {nodes: 6, queue_wait: 5min}\n"
      "training: {iteration: 12s, save_every: 30, save: 20s}\n"
      "policy: {nodes: 2, spares: 1, floor: 5min, restarts: 40, without_progress: 6, keep_last: 2, "
      "archive_every: 60}\n"
      "faults: {rank_crash: 6h, lead_death: 20h, torn_save: 6h}\n");
  Campaign campaign;
  campaign.last = 4;
  CHECK(run_campaign(scenario, campaign).safety == 0);
  campaign.last = 50;
  campaign.until_first = true;
  campaign.broken = Guard::ArchiveFirst;
  const Report report = run_campaign(scenario, campaign);
  REQUIRE(report.failures.size() == 1);
  const std::string told = report.failures.front().safety.front();
  CHECK_MESSAGE(told.find("of which no copy was verified") != std::string::npos, told);
}

TEST_CASE("simulation: followers -> each once, their checkpoints stay; without a guard, found") {
  const Scenario scenario = shipped("followers");
  Campaign campaign;
  campaign.last = 4;
  const Report sound = run_campaign(scenario, campaign);
  CHECK(sound.safety + sound.liveness == 0);
  CHECK(sound.followed > 100);
  campaign.last = 300;
  campaign.until_first = true;
  const std::map<Guard, std::string> guards{{Guard::FollowOnce, "runs "},
                                            {Guard::FollowProof, "runs "},
                                            {Guard::FollowKept, "its checkpoint was deleted"}};
  check_caught(scenario, campaign, guards);
}

TEST_CASE("simulation: snapshots in memory -> whole, of the line, and less is repeated") {
  Scenario scenario = shipped("memory");
  Campaign campaign;
  campaign.last = 12;
  const Report with = run_campaign(scenario, campaign);
  CHECK_MESSAGE(with.failures.empty(), first_of(with));
  CHECK(with.from_memory > 50);
  scenario.training.memory_every = 0;
  const Report without = run_campaign(scenario, campaign);
  CHECK(without.from_memory == 0);
  CHECK(with.lost < without.lost);
}

TEST_CASE("simulation: ends while the daemon is away -> once; without the mark's guard, found") {
  const Scenario scenario = shipped("ends");
  Campaign campaign;
  campaign.last = 20;
  const Report report = run_campaign(scenario, campaign);
  CHECK_MESSAGE(report.failures.empty(), first_of(report));
  campaign.until_first = true;
  campaign.broken = Guard::EndMark;
  const Report broken = run_campaign(scenario, campaign);
  REQUIRE(broken.failures.size() == 1);
  const std::string told = broken.failures.front().safety.front();
  CHECK_MESSAGE(told.find("although the run") != std::string::npos, told);
}

TEST_CASE("simulation: a script without agents -> ends once, one writes; without a guard, found") {
  const Scenario scenario = shipped("script");
  Campaign campaign;
  campaign.last = 60;  // of which one in five completes its training
  const Report sound = run_campaign(scenario, campaign);
  CHECK_MESSAGE(sound.failures.empty(), first_of(sound));
  CHECK(sound.alerts.at("finished") > 3);
  CHECK(to_seconds(sound.useful) / 3600 > sound.hours / 5);
  campaign.last = 300;
  campaign.until_first = true;
  // A second writer, or one more after the end.
  const std::map<Guard, std::string> guards{{Guard::LastLines, " begins "},
                                            {Guard::Stillness, " begins while "}};
  check_caught(scenario, campaign, guards);
}

TEST_CASE("simulation: without a guard of the lead -> found") {
  const Scenario scenario = shipped("chaos");
  Campaign campaign;
  campaign.last = 100;
  campaign.until_first = true;
  const std::map<Guard, std::string> guards{
      {Guard::StaleAttempt, "the lead ends ranks that are well"},
      {Guard::EarlyStart, "are alive on"},
      {Guard::Claim, "still trains"},
      {Guard::Lineage, "none of its ancestry"}};
  check_caught(scenario, campaign, guards);
}

TEST_CASE("shrink: a failing seed -> the faults that are enough, and what is broken") {
  const Scenario scenario = scenario_of(kScenario);
  Campaign campaign;
  campaign.last = 50;
  campaign.broken = Guard::StalePhase;
  campaign.until_first = true;
  const Report report = run_campaign(scenario, campaign);
  REQUIRE(report.failures.size() == 1);
  const auto story = shrink(scenario, campaign, report.failures.front().seed);
  REQUIRE(story.size() > 2);
  CHECK(story.back().starts_with("safety: "));
  const auto struck = std::count_if(story.begin(), story.end(), [](const std::string& line) {
    return line.find(" world: fault ") != std::string::npos;
  });
  const std::string enough = fmt::format("{} of ", struck);  // as many as the story still mentions
  CHECK(std::any_of(story.begin(), story.end(), [&](const std::string& line) {
    return line.starts_with(enough) && line.ends_with(" faults are enough");
  }));
}

TEST_CASE("digest: one seed -> one digest, another seed -> another") {
  const Scenario scenario = scenario_of(kScenario);
  Campaign campaign;
  campaign.last = 2;
  const auto digests = trace_digests(scenario, campaign);
  REQUIRE(digests.size() == 2);
  CHECK(digests == trace_digests(scenario, campaign));
  CHECK(digests[0].starts_with("short 1 "));
  CHECK(digests[0].substr(8) != digests[1].substr(8));
}

TEST_CASE("scenario: mistakes -> each with its position") {
  configs::Diagnostics errors;
  scenario_of(
      "name: x\nabout: y\nfor: -3h\nfaults: {rank_crush: 3h}\ncluster: {nodes: 2}\n"
      "policy: {nodes: 4}\nevents:\n  - {fault: rank_crash}\n"
      "training: {noise: .nan}\n",
      &errors);
  std::string text;
  for (const auto& error : errors) text += error.text() + "\n";
  for (const char* told :
       {"short.yaml:3:6: error: for:",
        "short.yaml:4:10: error: unknown key \"rank_crush\"; did you mean \"rank_crash\"?",
        "short.yaml:5:10: error: cluster: has fewer nodes",
        "short.yaml:8:5: error:", "short.yaml:9:19: error: noise:"})
    CHECK_MESSAGE(text.find(told) != std::string::npos, text);
}
