// Own lines first, then the table, then srun.
#include "diagnose/blame.hpp"

#include <algorithm>

namespace stoker::diagnose {

namespace {

constexpr std::size_t kMost = 4096;

template <class T>
void add(std::vector<T>& all, const T& one) {
  if (all.size() < kMost && std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
}

void add_nodes(Blame& blame, const Finding& f) {
  if (!f.node.empty()) add(blame.nodes, f.node);
}
void add_ranks(Blame& blame, const Finding& f) {
  for (const auto rank : f.ranks) add(blame.ranks, rank);
}
void add_places(Blame& blame, const Finding& f) {
  add_nodes(blame, f);
  add_ranks(blame, f);
}

// Rows of the table that failed as the first one did.
void add_elastic(Blame& blame, const ScannedLog& log) {
  const auto root = std::find_if(log.elastic.begin(), log.elastic.end(),
                                 [](const ElasticRow& row) { return row.root; });
  const auto add_row = [&](const ElasticRow& row) {
    if (!row.host.empty()) add(blame.nodes, row.host);
    if (row.rank) add(blame.ranks, *row.rank);
  };
  if (root != log.elastic.end()) add_row(*root);
  for (const auto& row : log.elastic)
    if (root == log.elastic.end() || row.exit_code == root->exit_code) add_row(row);
}

}  // namespace

Blame blame_for(const Finding& root, const Finding& line,
                const std::vector<const Finding*>& candidates,
                const std::vector<ScannedLog>& logs) {
  Blame blame;
  add_places(blame, line);
  if (blame.nodes.empty()) add_nodes(blame, root);
  if (blame.ranks.empty()) add_ranks(blame, root);
  for (const auto* f : candidates)
    if (f->failure_class == root.failure_class && f->weight >= line.weight) add_places(blame, *f);
  if (root.from_kernel) return blame;
  Blame table;
  for (const auto& log : logs) add_elastic(table, log);
  for (const auto* f : candidates) {
    const bool first_hand = f->signature != nullptr && f->signature->names_guilty;
    if (first_hand) add_places(table, *f);
  }
  if (blame.nodes.empty()) blame.nodes = table.nodes;
  if (blame.ranks.empty()) blame.ranks = table.ranks;
  return blame;
}

}  // namespace stoker::diagnose
