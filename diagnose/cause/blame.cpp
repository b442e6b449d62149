// Own lines first, then the table, then srun.
#include "diagnose/cause/blame.hpp"

#include <algorithm>
#include <cctype>
#include <set>

namespace stoker::diagnose {

namespace {

constexpr std::size_t kMost = 4096;
constexpr std::size_t kLongestHost = 253;  // RFC 1123

// What stands in a line for a host may be any text, and a person pastes commands that name it.
bool is_host_name(std::string_view text) {
  const auto is_part = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  };
  return !text.empty() && text.size() <= kLongestHost && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), is_part);
}

// Keeps the order of arrival; no search through what is there for each of a million lines.
class Places {
 public:
  void add_node(const std::string& node) {
    if (is_host_name(node)) add(told_.nodes, nodes_, node);
  }
  void add_rank(std::uint32_t rank) { add(told_.ranks, ranks_, rank); }
  void add_ranks(const Finding& f) {
    for (const auto rank : f.ranks) add_rank(rank);
  }
  void add_places(const Finding& f) {
    add_node(f.node);
    add_ranks(f);
  }
  [[nodiscard]] const Blame& told() const { return told_; }

 private:
  template <class T>
  static void add(std::vector<T>& all, std::set<T>& known, const T& one) {
    if (all.size() < kMost && known.insert(one).second) all.push_back(one);
  }
  Blame told_;
  std::set<std::string> nodes_;
  std::set<std::uint32_t> ranks_;
};

// The kernel names the GPU; the training's logs tell who computes there.
void add_rank_of_gpu(Blame& blame, const Finding& root, const std::vector<ScannedLog>& logs) {
  if (root.gpu_pci.empty()) return;
  std::vector<GpuPlace> places;
  for (const auto& log : logs) places.insert(places.end(), log.gpus.begin(), log.gpus.end());
  const std::string node = blame.nodes.empty() ? root.node : blame.nodes.front();
  if (const auto rank = rank_on_gpu(places, node, root.gpu_pci)) blame.ranks.push_back(*rank);
}

// Rows of the table that failed as the first one did.
void add_elastic(Places& blame, const ScannedLog& log) {
  const auto root = std::find_if(log.elastic.begin(), log.elastic.end(),
                                 [](const ElasticRow& row) { return row.root; });
  const auto add_row = [&](const ElasticRow& row) {
    blame.add_node(row.host);
    if (row.rank) blame.add_rank(*row.rank);
  };
  if (root != log.elastic.end()) add_row(*root);
  for (const auto& row : log.elastic)
    if (root == log.elastic.end() || row.exit_code == root->exit_code) add_row(row);
}

}  // namespace

Blame blame_for(const Finding& root, const Finding& line,
                const std::vector<const Finding*>& candidates,
                const std::vector<ScannedLog>& logs) {
  Places own;
  own.add_places(line);
  if (own.told().nodes.empty()) own.add_node(root.node);
  if (own.told().ranks.empty()) own.add_ranks(root);
  for (const auto* f : candidates)
    if (f->failure_class == root.failure_class && f->weight >= line.weight) own.add_places(*f);
  Blame blame = own.told();
  if (blame.ranks.empty()) add_rank_of_gpu(blame, root, logs);
  if (root.from_kernel) return blame;
  Places table;
  for (const auto& log : logs) add_elastic(table, log);
  for (const auto* f : candidates) {
    const bool first_hand = f->signature != nullptr && f->signature->names_guilty;
    if (first_hand) table.add_places(*f);
  }
  if (blame.nodes.empty()) blame.nodes = table.told().nodes;
  if (blame.ranks.empty()) blame.ranks = table.told().ranks;
  return blame;
}

}  // namespace stoker::diagnose
