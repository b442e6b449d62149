// Campaign.
#include "sim/campaign.hpp"

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
  Campaign quiet = campaign;
  quiet.trace = {};
  std::vector<std::string> story;
  const auto keep_story = [&](std::set<std::uint32_t> skip) {
    story.clear();
    quiet.trace = [&](const std::string& line) { story.push_back(line); };
    const Outcome outcome = run_one(scenario, quiet, seed, std::move(skip));
    quiet.trace = {};
    return outcome;
  };
  Outcome outcome = keep_story({});
  std::vector<std::uint32_t> numbers;
  for (const std::string& line : story) {
    const auto at = line.find(" world: fault ");
    if (at != std::string::npos)
      numbers.push_back(
          static_cast<std::uint32_t>(std::strtoul(line.c_str() + at + 14, nullptr, 10)));
  }
  std::set<std::uint32_t> skip;
  for (std::size_t piece = std::max<std::size_t>(1, numbers.size() / 2);; piece = (piece + 1) / 2) {
    const std::size_t before = skip.size();
    for (std::size_t at = 0; at < numbers.size(); at += piece) {
      std::set<std::uint32_t> more = skip;
      for (std::size_t i = at; i < std::min(at + piece, numbers.size()); ++i)
        more.insert(numbers[i]);
      if (more.size() == skip.size() || !fails(run_one(scenario, quiet, seed, more))) continue;
      skip = std::move(more);
    }
    if (piece == 1 && skip.size() == before) break;  // each that is left is needed
  }
  outcome = keep_story(skip);
  story.push_back(
      fmt::format("{} of {} faults are enough", numbers.size() - skip.size(), numbers.size()));
  for (const std::string& text : outcome.safety) story.push_back("safety: " + text);
  for (const std::string& text : outcome.liveness) story.push_back("liveness: " + text);
  return story;
}

}  // namespace stoker::sim
