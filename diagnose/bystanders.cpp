// The guilty rank's node is often told elsewhere: by a line or a file of its own.
#include "diagnose/bystanders.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "diagnose/stack_groups.hpp"

namespace stoker::diagnose {

namespace {

// The first that is told wins.
std::map<std::uint32_t, std::string> nodes_of_ranks(const std::vector<ScannedLog>& logs) {
  std::map<std::uint32_t, std::string> nodes;
  for (const ScannedLog& log : logs) {
    if (log.rank && !log.node.empty()) nodes.emplace(*log.rank, log.node);
    for (const Finding& f : log.findings)
      if (f.ranks.size() == 1 && !f.node.empty()) nodes.emplace(f.ranks.front(), f.node);
  }
  return nodes;
}

void name_missing(Diagnosis& d, const std::vector<ScannedLog>& logs) {
  std::vector<CollectiveReport> reports;
  for (const ScannedLog& log : logs)
    reports.insert(reports.end(), log.collectives.begin(), log.collectives.end());
  if (reports.empty()) return;
  CollectiveView view = find_missing(reports);
  if (!view.disagreement.empty()) d.notes.push_back(view.disagreement);
  if (view.missing.empty()) {
    if (view.stuck > 1)
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
  d.summary += ": " + d.collective;
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
    d.stacks += fmt::format("{} {}{}", i == 0 ? "; elsewhere than the others: rank" : ",",
                            report.odd[i].rank,
                            report.odd[i].node.empty() ? "" : " on " + report.odd[i].node);
  const bool unnamed = d.ranks.empty() && report.odd.size() == 1;
  if (!unnamed) return;
  d.rank = report.odd.front().rank;
  d.ranks = {*d.rank};
  if (d.node.empty() && !report.odd.front().node.empty()) {
    d.node = report.odd.front().node;
    d.nodes = {d.node};
  }
}

}  // namespace

void hear_bystanders(Diagnosis& d, const std::vector<ScannedLog>& logs) {
  if (d.failure_class == FailureClass::NcclTimeout) name_missing(d, logs);
  name_odd_stacks(d, logs);
}

}  // namespace stoker::diagnose
