// The guilty rank's node is often named elsewhere: by a line or a file of its own.
#include "diagnose/cause/bystanders.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "diagnose/cause/stack_groups.hpp"

namespace stoker::diagnose {

namespace {

// The first that is known wins.
std::map<std::uint32_t, std::string> nodes_of_ranks(const std::vector<ScannedLog>& logs) {
  std::map<std::uint32_t, std::string> nodes;
  for (const ScannedLog& log : logs) {
    if (log.rank && !log.node.empty()) nodes.emplace(*log.rank, log.node);
    for (const Finding& f : log.findings)
      if (f.ranks.size() == 1 && !f.node.empty()) nodes.emplace(f.ranks.front(), f.node);
  }
  return nodes;
}

// Whose log is there and does not speak of the time-out that nearly all others report.
std::vector<std::uint32_t> silent_ranks(const std::vector<ScannedLog>& logs) {
  std::set<std::uint32_t> silent, reporting;
  for (const ScannedLog& log : logs)
    if (log.rank && log.stacks.empty())
      (log.collectives.empty() ? silent : reporting).insert(*log.rank);
  for (const auto rank : reporting) silent.erase(rank);
  if (silent.size() * 4 > reporting.size()) return {};
  return {silent.begin(), silent.end()};
}

void name_missing(Diagnosis& d, const std::vector<ScannedLog>& logs, const CauseRules& rules) {
  std::vector<CollectiveReport> reports;
  for (const ScannedLog& log : logs)
    reports.insert(reports.end(), log.collectives.begin(), log.collectives.end());
  if (reports.empty()) return;
  CollectiveView view = find_missing(reports);
  if (!view.disagreement.empty()) d.notes.push_back(view.disagreement);
  if (view.missing.empty()) {
    if (const auto silent = silent_ranks(logs); !silent.empty()) {
      const auto nodes = nodes_of_ranks(logs);
      d.ranks = silent;
      d.rank = silent.front();
      d.nodes.clear();
      for (const auto rank : silent)
        if (const auto known = nodes.find(rank);
            known != nodes.end() && (d.nodes.empty() || d.nodes.back() != known->second))
          d.nodes.push_back(known->second);
      d.node = d.nodes.empty() ? "" : d.nodes.front();
      d.collective = fmt::format("rank {} does not report the time-out that {} others report",
                                 silent.front(), reports.size());
      d.summary = rules.meaning(d.failure_class).summary + ": " + d.collective;
    } else if (view.stuck > 1)
      d.notes.push_back(
          fmt::format("all {} ranks that report have entered the collective that is "
                      "stuck: look at links and GPUs rather than the program",
                      view.stuck));
    return;
  }
  d.nodes.clear();
  d.ranks.clear();
  d.rank.reset();
  const auto nodes = nodes_of_ranks(logs);
  std::set<std::string> named;
  for (MissingRank& missing : view.missing) {
    if (const auto known = nodes.find(missing.rank); missing.node.empty() && known != nodes.end())
      missing.node = known->second;
    if (!d.rank) d.rank = missing.rank;
    d.ranks.push_back(missing.rank);
    if (!missing.node.empty() && named.insert(missing.node).second) d.nodes.push_back(missing.node);
  }
  std::sort(d.ranks.begin(), d.ranks.end());
  d.node = d.nodes.empty() ? "" : d.nodes.front();
  d.collective = missing_text(view);
  d.summary = rules.meaning(d.failure_class).summary + ": " + d.collective;
}

void name_odd_stacks(Diagnosis& d, const std::vector<ScannedLog>& logs) {
  std::vector<RankStack> stacks;
  for (const ScannedLog& log : logs)
    if (!log.stacks.empty() && log.rank) stacks.push_back({log.node, *log.rank, log.stacks});
  if (stacks.size() < 2) return;
  const StackReport report = group_stacks(stacks);
  constexpr std::size_t kNamed = 8;
  d.stacks =
      fmt::format("{} ranks in {} groups of equal stacks", stacks.size(), report.groups.size());
  for (std::size_t i = 0; i < std::min(report.odd.size(), kNamed); ++i)
    d.stacks += fmt::format(
        "{} {}{}", i == 0 ? "; at a different place than the others: rank" : ",",
        report.odd[i].rank, report.odd[i].node.empty() ? "" : " on " + report.odd[i].node);
  // Those that a time-out names have waited: who stands elsewhere is the one that did not come.
  const bool witnesses = d.failure_class == FailureClass::NcclTimeout && d.collective.empty();
  if (report.odd.size() != 1 || !(d.ranks.empty() || witnesses)) return;
  d.rank = report.odd.front().rank;
  d.ranks = {*d.rank};
  if (witnesses || (d.node.empty() && !report.odd.front().node.empty())) {
    d.node = report.odd.front().node;
    d.nodes.clear();
    if (!d.node.empty()) d.nodes.push_back(d.node);
  }
}

// Nothing but stacks: the collector saw no progress, and no line says whether that is so.
void judge_stacks(Diagnosis& d, const CauseRules& rules) {
  constexpr double kOddOneOut = 0.5, kNothing = 0.1;
  d.notes.emplace_back("stacks alone do not tell whether the run moves: add its log");
  d.confidence = kNothing;
  if (d.ranks.empty()) return;
  d.failure_class = FailureClass::Hang;
  d.confidence = kOddOneOut;
  d.summary = rules.meaning(d.failure_class).summary;
  d.advice = rules.meaning(d.failure_class).advice;
}

}  // namespace

void hear_bystanders(Diagnosis& d, const std::vector<ScannedLog>& logs, const CauseRules& rules) {
  if (d.failure_class == FailureClass::NcclTimeout) name_missing(d, logs, rules);
  name_odd_stacks(d, logs);
  const bool only_stacks =
      !logs.empty() && std::all_of(logs.begin(), logs.end(),
                                   [](const ScannedLog& log) { return !log.stacks.empty(); });
  if (d.failure_class == FailureClass::Healthy && only_stacks) judge_stacks(d, rules);
}

}  // namespace stoker::diagnose
