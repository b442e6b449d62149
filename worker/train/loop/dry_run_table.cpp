#include "worker/train/loop/dry_run_table.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "common/size_text.hpp"

namespace stoker::train {
namespace {

using Row = std::vector<std::string>;

std::string number_text(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string range_text(std::uint64_t first, std::uint64_t last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

// The first column to the left, the others to the right.
std::string table_of(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line = fmt::format("{:<{}}", row[0], widths[0]);
    for (std::size_t i = 1; i < row.size(); ++i) line += fmt::format("  {:>{}}", row[i], widths[i]);
    text += line + "\n";
  }
  return text;
}

std::uint32_t nodes_of(const DryFacts& facts) {
  return (facts.mesh.world() + facts.ranks_per_node - 1) / facts.ranks_per_node;
}

std::string mesh_text(const recipe::TrainConfig& c, const DryFacts& facts) {
  const Mesh& m = facts.mesh;
  const auto& p = c.parallel;
  const std::uint32_t nodes = nodes_of(facts);
  return fmt::format(
      "tensor {}{} x pipeline {} ({}) x data {} = {} rank{} on {} node{}{}", m.tp,
      p.sequence && m.tp > 1 ? " with sequence parallelism" : "", m.pp,
      p.schedule == recipe::ScheduleKind::Csv ? p.schedule_file : name_of(p.schedule), m.dp,
      m.world(), m.world() == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s",
      p.zero > 0 ? "; ZeRO-1" : "");
}

// Two generations of the shards of a node's ranks and, with a next node, of its ranks' too.
std::string snapshots_text(const recipe::TrainConfig& c, const DryFacts& facts,
                           const MeshWalk& walk) {
  const std::uint64_t copies = nodes_of(facts) > 1 ? 4 : 2;
  return fmt::format("every {} iteration{}, at most {} of a node's memory",
                     c.checkpoint.memory_every, c.checkpoint.memory_every == 1 ? "" : "s",
                     size_text(copies * walk.largest_shard * facts.ranks_per_node));
}

std::string batch_text(const recipe::PipelinePlan& plan, const ScheduleWalk& walk) {
  const auto by_size = [](const auto& a, const auto& b) { return a.batch.global < b.batch.global; };
  const auto [least, most] = std::minmax_element(plan.phases.begin(), plan.phases.end(), by_size);
  return fmt::format("{} samples a step in {} micro-batches a replica; all can be cut",
                     range_text(least->batch.global, most->batch.global),
                     range_text(walk.least, walk.most));
}

std::string schedule_text(const recipe::PipelinePlan& plan, const ScheduleWalk& walk) {
  std::string text = fmt::format("{} of {} lengths walked, none hangs", walk.walked, walk.lengths);
  if (const auto bubble = plan.phases.back().bubble)
    text += fmt::format("; bubble {:.1f} % with {} micro-batches, the last batch (F = I = W)",
                        100 * *bubble, walk.full);
  return text;
}

std::string stages_text(const MeshWalk& walk) {
  const bool gpus = std::any_of(walk.stages.begin(), walk.stages.end(),
                                [](const StageNeed& s) { return s.runtime > 0; });
  std::vector<Row> rows{
      {"pipeline rank", "ranks", "layers", "parameters", "in flight", "state", "activations"}};
  if (gpus) rows[0].emplace_back("CUDA's own");
  rows[0].insert(rows[0].end(), {"total", "save copy"});
  for (std::size_t r = 0; r < walk.stages.size(); ++r) {
    const StageNeed& s = walk.stages[r];
    rows.push_back({std::to_string(r), range_text(s.first_rank, s.last_rank), s.layers,
                    number_text(s.parameters), fmt::format("{:.6g}", s.in_flight),
                    size_text(s.state), size_text(s.activations)});
    if (gpus) rows.back().push_back(size_text(s.runtime));
    rows.back().insert(rows.back().end(), {size_text(s.total()), size_text(s.save_copy)});
  }
  return table_of(rows);
}

}  // namespace

std::string dry_run_table(const recipe::TrainConfig& c, const DryFacts& facts, const MeshWalk* walk,
                          const recipe::PipelinePlan* plan) {
  std::vector<std::pair<std::string, std::string>> lines{
      {"mesh", mesh_text(c, facts)},
      {"data", facts.data.empty() ? "not read (--without-data)" : facts.data},
      {"begins", facts.begins}};
  if (!facts.guarantee.empty()) lines.emplace_back("guarantee", facts.guarantee);
  if (walk != nullptr) {
    lines.emplace_back("model", fmt::format("{} parameters in {} tensors; each element counts on "
                                            "one rank of a replica",
                                            number_text(walk->parameters), walk->tensors));
    lines.emplace_back("batches", batch_text(*plan, walk->schedules));
    lines.emplace_back("schedules", schedule_text(*plan, walk->schedules));
    if (!facts.fallback.empty()) lines.emplace_back("1F1B's order", facts.fallback);
    lines.emplace_back("a save",
                       fmt::format("{} in {} shards, the largest {}", size_text(walk->saved),
                                   facts.mesh.world(), size_text(walk->largest_shard)));
    if (c.checkpoint.memory_every > 0)
      lines.emplace_back("in memory", snapshots_text(c, facts, *walk));
  }
  std::string text = "The start would go on.\n\n";
  for (const auto& [what, said] : lines) text += fmt::format("{:<13} {}\n", what, said);
  if (walk != nullptr) text += "\nA rank needs at most:\n" + stages_text(*walk);
  return text;
}

}  // namespace stoker::train
