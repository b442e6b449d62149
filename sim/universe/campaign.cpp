// Campaign.
#include "sim/universe/campaign.hpp"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <thread>

#include "common/hash.hpp"

namespace stoker::sim {
namespace {

constexpr std::size_t kFailuresTold = 5;

bool fails(const Outcome& outcome) {
  return !outcome.safety.empty() || !outcome.liveness.empty();
}

Outcome run_one(const Scenario& scenario, const Campaign& campaign, std::uint64_t seed,
                std::set<std::uint32_t> skip = {}) {
  Settings settings;
  settings.seed = seed;
  settings.broken = campaign.broken;
  settings.skip = std::move(skip);
  settings.trace = campaign.trace;
  return Universe(scenario, std::move(settings)).live();
}

void add(Report& report, std::uint64_t seed, const Outcome& outcome) {
  ++report.runs;
  report.hours += to_seconds(outcome.length) / 3600;
  report.ettr += outcome.ettr();
  report.faults += outcome.faults;
  report.incidents += outcome.incidents;
  report.manual += outcome.manual;
  report.followed += outcome.followed;
  report.from_memory += outcome.from_memory;
  report.useful += outcome.useful;
  report.lost += outcome.lost;
  report.hangs += outcome.found.hangs;
  report.slows += outcome.found.slows;
  report.slowdowns += outcome.found.slowdowns;
  report.doubled += outcome.found.doubled;
  report.false_hangs += outcome.found.false_hangs;
  report.false_slows += outcome.found.false_slows;
  report.hang_verdict = std::max(report.hang_verdict, outcome.found.hang_longest);
  report.slow_found = std::max(report.slow_found, outcome.found.slow_longest);
  for (const auto& [kind, n] : outcome.found.alerts) report.alerts[kind] += n;
  report.state = outcome.state;
  report.why = outcome.why;
  report.safety += outcome.safety.empty() ? 0 : 1;
  report.liveness += outcome.liveness.empty() ? 0 : 1;
  if (!fails(outcome)) return;
  report.failed_seeds.push_back(seed);
  if (report.failures.size() < kFailuresTold)
    report.failures.push_back({seed, outcome.safety, outcome.liveness});
}

constexpr unsigned kMostTries = 500;  // lives that shrinking simulates

struct Story {
  Outcome outcome;
  std::vector<std::string> lines;
  std::vector<std::uint32_t> faults;  // that struck, by their numbers
};

Story tell(const Scenario& scenario, const Campaign& campaign, std::uint64_t seed,
           const std::set<std::uint32_t>& skip) {
  constexpr std::string_view kStruck = " world: fault ";
  Story story;
  Campaign traced = campaign;
  traced.trace = [&story](const std::string& line) { story.lines.push_back(line); };
  story.outcome = run_one(scenario, traced, seed, skip);
  for (const std::string& line : story.lines)
    if (const auto at = line.find(kStruck); at != std::string::npos)
      story.faults.push_back(static_cast<std::uint32_t>(
          std::strtoul(line.c_str() + at + kStruck.size(), nullptr, 10)));
  return story;
}

}  // namespace

Report run_campaign(const Scenario& scenario, const Campaign& campaign) {
  std::atomic<std::uint64_t> next{campaign.first};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::map<std::uint64_t, Outcome> outcomes;
  const Instant began = monotonic_now();
  const auto work = [&] {
    while (!stop) {
      const std::uint64_t seed = next++;
      const bool late = campaign.wall_limit > 0ns && monotonic_now() - began > campaign.wall_limit;
      if (seed > campaign.last || late) return;
      Outcome outcome = run_one(scenario, campaign, seed);
      if (campaign.until_first && fails(outcome)) stop = true;
      const std::scoped_lock lock(mutex);
      outcomes.emplace(seed, std::move(outcome));
    }
  };
  const unsigned count = campaign.trace ? 1 : std::max(1u, campaign.threads);
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  Report report;
  for (const auto& [seed, outcome] : outcomes) add(report, seed, outcome);
  if (report.runs > 0) report.ettr /= static_cast<double>(report.runs);
  return report;
}

std::vector<std::string> trace_digests(const Scenario& scenario, const Campaign& campaign) {
  std::vector<std::string> digests;
  for (std::uint64_t seed = campaign.first; seed <= campaign.last; ++seed) {
    Xxh3Stream hash;
    Campaign traced = campaign;
    traced.trace = [&hash](const std::string& line) {
      hash.update(line.data(), line.size());
      hash.update("\n", 1);
    };
    run_one(scenario, traced, seed);
    digests.push_back(fmt::format("{} {} {}", scenario.name, seed, hex64(hash.digest())));
  }
  return digests;
}

std::vector<std::string> shrink(const Scenario& scenario, const Campaign& campaign,
                                std::uint64_t seed) {
  Story told = tell(scenario, campaign, seed, {});
  const std::size_t all = told.faults.size();
  std::set<std::uint32_t> skip;
  std::size_t piece = std::max<std::size_t>(1, all / 2);
  std::size_t at = 0;
  for (unsigned tries = 0; tries < kMostTries; ++tries) {
    if (at >= told.faults.size()) {
      if (piece == 1) break;  // each that is left is needed
      piece = (piece + 1) / 2;
      at = 0;
      continue;
    }
    const std::size_t end = std::min(at + piece, told.faults.size());
    std::set<std::uint32_t> more = skip;
    for (std::size_t i = at; i < end; ++i) more.insert(told.faults[i]);
    Story without = tell(scenario, campaign, seed, more);
    if (!fails(without.outcome)) {
      at = end;
      continue;
    }
    skip = std::move(more);
    told = std::move(without);  // its faults may be others: a life that goes on meets more
    at = 0;
  }
  std::vector<std::string> lines = std::move(told.lines);
  lines.push_back(fmt::format("{} of {} faults are enough", told.faults.size(), all));
  for (const std::string& text : told.outcome.safety) lines.push_back("safety: " + text);
  for (const std::string& text : told.outcome.liveness) lines.push_back("liveness: " + text);
  return lines;
}

}  // namespace stoker::sim
