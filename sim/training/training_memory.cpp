// Snapshots in the memory of nodes (checkpoint.memory): what each node holds when ranks end, what
// it says, and what must never be resumed from.
#include <algorithm>
#include <fmt/format.h>

#include "sim/training/training.hpp"

namespace stoker::sim {
namespace {

constexpr std::uint32_t kTorn =
    250;  // of 1,000: not all ranks had come to the end of the newest one
constexpr std::uint32_t kForgotten = 50;  // nodes of them that had not

}  // namespace

// A node has the shards of its own ranks and of the node before it, of two iterations at most.
void Training::copy_snapshots(SimGeneration& g) {
  const std::uint64_t every = scenario_.training.memory_every;
  if (every == 0 || g.stage < Stage::Iterate || g.copied == g.attempt) return;
  g.copied = g.attempt;
  const std::uint64_t newest = g.base.value / every * every;
  if (newest <= g.resume.value) return;
  const bool torn = random_.chance(kTorn);
  for (std::size_t i = 0; i < g.attempt_nodes.size(); ++i) {
    auto& memory = g.memory[g.attempt_nodes[i]];
    const auto push = [&](std::uint64_t iteration) {
      wire::HeldSnapshot made;
      made.generation = g.number;
      made.attempt = g.attempt;
      made.iteration = Iteration(iteration);
      const std::uint32_t each = g.orders().ranks_per_node;
      made.shards = static_cast<std::uint32_t>(g.attempt_nodes.size()) * each;
      for (const std::size_t from : {i, (i + g.attempt_nodes.size() - 1) % g.attempt_nodes.size()})
        for (std::uint32_t rank = 0; rank < each; ++rank) {
          made.shard = static_cast<std::uint32_t>(from) * each + rank;
          memory.push_back(made);
        }
    };
    const bool two = newest >= every && newest - every > g.resume.value;
    // What was loaded stays until two newer ones are there.
    std::erase_if(memory, [&](const auto& held) { return two || held.iteration != g.resume; });
    if (two) push(newest - every);
    if (!torn || !random_.chance(kForgotten)) push(newest);
  }
}

// With a beat of each node before its ranks are gone, as the agents send one.
void Training::tell_memory(SimGeneration& g, const NodeName& node) {
  const auto found = g.memory.find(node);
  if (found == g.memory.end() || node == g.host()) return;
  wire::NodeBeat beat;
  beat.attempt = g.attempt;
  beat.snapshots = static_cast<std::uint32_t>(found->second.size());
  g.lead.waiting.push_back(lead::NodeSaid{node, std::move(beat)});
}

void Training::list_snapshots(SimGeneration& g, const NodeName& node) {
  later(g, random_.between(10ms, 2s), [this, node](SimGeneration& then) {
    if (!then.lead.silent.contains(node))
      report(then, node, wire::SnapshotsHeld{then.memory[node], {}});
  });
}

// Where an attempt begins that was given a snapshot.
Iteration Training::resume_from_memory(SimGeneration& g, const lead::StartAttempt& start) {
  const wire::SnapshotId id = *start.order.memory;
  const auto holds = [&](const NodeName& node, std::uint32_t shard) {
    const auto& memory = g.memory[node];
    return std::any_of(memory.begin(), memory.end(), [&](const wire::HeldSnapshot& held) {
      return held.attempt == id.attempt && held.iteration == id.iteration && held.shard == shard;
    });
  };
  const std::uint32_t world = start.order.groups * start.order.ranks_per_node;
  for (std::uint32_t shard = 0; shard < world; ++shard)
    if (std::none_of(start.nodes.begin(), start.nodes.end(),
                     [&](const NodeName& node) { return holds(node, shard); }))
      hooks_.broken(
          fmt::format("attempt {} resumes from iteration {} in memory, no node has shard "
                      "{} of it",
                      start.order.attempt.value, id.iteration.value, shard));
  for (const auto& [attempt, iteration] : g.begun)
    if (attempt > id.attempt && iteration < id.iteration)
      hooks_.broken(fmt::format(
          "attempt {} resumes from iteration {} in memory, which attempt {} "
          "had left by beginning at {}",
          start.order.attempt.value, id.iteration.value, attempt.value, iteration.value));
  ++from_memory_;
  return id.iteration;
}

}  // namespace stoker::sim
