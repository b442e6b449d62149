// Snapshots in the memory of nodes: who holds what, and which one an attempt resumes from.
#include "lead/snapshots.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/hostlist.hpp"
#include "lead/handlers.hpp"

namespace stoker::lead {
namespace {

constexpr Duration kSearchLimit = 60s;   // the content of all is read
constexpr std::size_t kMostDamaged = 8;  // reported of one node

using Key = std::pair<Iteration, Attempt>;
using Shards = std::map<std::uint32_t, NodeName>;

bool is_listed(const std::vector<NodeName>& list, const NodeName& node) {
  return std::find(list.begin(), list.end(), node) != list.end();
}

// Of the line that led to the newest attempt: no attempt since has begun in front of it.
bool is_of_line(const State& state, const wire::HeldSnapshot& held) {
  const auto bound = state.snapshots_through.find(held.attempt);
  return held.generation == state.setup.start.generation &&
         bound != state.snapshots_through.end() && held.iteration <= bound->second;
}

std::string missing_of(const Shards& shards, std::uint32_t world) {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t s = 0; s < world; ++s)
    if (!shards.contains(s)) missing.push_back(s);
  constexpr std::size_t kMost = 8;
  const bool more = missing.size() > kMost;
  if (more) missing.resize(kMost);
  return fmt::format("{}{}", fmt::join(missing, ", "), more ? ", …" : "");
}

// What is left to wait for; an agent that is gone does not answer.
void settle(Turn& turn) {
  auto& search = turn.state.search;
  if (!search || !search->disk || !search->waiting.empty()) return;
  ChosenCheckpoint chosen = std::move(*search->disk);
  chosen.held = std::move(search->held);
  search.reset();
  take_choice(turn, std::move(chosen));
}

}  // namespace

void search_snapshots(Turn& turn) {
  Search search;
  search.until = turn.at + kSearchLimit;
  for (const auto& [node, agent] : turn.state.agents)
    if (agent.snapshots > 0 && std::holds_alternative<Present>(agent.presence)) {
      search.waiting.insert(node);
      turn.send(node, wire::ListSnapshots{});
    }
  turn.state.search = std::move(search);
}

void on(Turn& turn, CheckpointChosen event) {
  auto& search = turn.state.search;
  if (!search) return;
  search->disk = std::move(event.chosen);
  settle(turn);
}

void on_snapshots(Turn& turn, const NodeName& node, const wire::SnapshotsHeld& report) {
  auto& search = turn.state.search;
  if (!search || search->waiting.erase(node) == 0) return;
  for (const auto& held : report.held) search->held.push_back({node, held});
  for (std::size_t i = 0; i < std::min(report.damaged.size(), kMostDamaged); ++i)
    turn.notice(fmt::format("a snapshot in the memory of {} is damaged and not used: {}", node.text,
                            report.damaged[i]));
  settle(turn);
}

void tend_search(Turn& turn) {
  auto& search = turn.state.search;
  if (!search) return;
  const bool late = turn.at >= search->until;
  if (late && !search->waiting.empty())
    turn.notice(fmt::format("{} did not say within {} which snapshots its memory holds",
                            compress_hostlist({search->waiting.begin(), search->waiting.end()}),
                            format_duration(kSearchLimit)));
  std::erase_if(search->waiting, [&](const NodeName& node) {
    return late || !std::holds_alternative<Present>(turn.state.agents.at(node).presence);
  });
  settle(turn);
}

std::optional<MemorySource> pick_snapshot(Turn& turn, const ChosenCheckpoint& chosen,
                                          const std::vector<NodeName>& nodes) {
  const std::uint32_t world =
      static_cast<std::uint32_t>(nodes.size()) * turn.orders().ranks_per_node;
  std::map<Key, Shards> found;
  std::map<Key, std::uint32_t> worlds;
  for (const auto& [node, held] : chosen.held) {
    if (!is_of_line(turn.state, held) || held.iteration <= chosen.iteration) continue;
    const Key key{held.iteration, held.attempt};
    worlds[key] = held.shards;
    auto& shards = found[key];
    if (held.shards != world || !is_listed(nodes, node)) continue;
    const bool at_home = node == nodes[held.shard / turn.orders().ranks_per_node];
    if (at_home || !shards.contains(held.shard)) shards[held.shard] = node;
  }
  for (auto at = found.rbegin(); at != found.rend(); ++at) {
    const auto& [key, shards] = *at;
    if (shards.size() == world) {
      MemorySource source{{key.second, key.first}, {}};
      for (const NodeName& node : nodes)
        if (std::any_of(shards.begin(), shards.end(),
                        [&](const auto& shard) { return shard.second == node; }))
          source.nodes.push_back(node);
      return source;
    }
    turn.notice(fmt::format(
        "the snapshot of iteration {} in memory is not used: {}", key.first.value,
        worlds[key] != world ? fmt::format("{} ranks made it, there are {}", worlds[key], world)
                             : fmt::format("no node of the attempt has the shard of rank {} of {}",
                                           missing_of(shards, world), world)));
  }
  return std::nullopt;
}

void note_resumed(State& state, Iteration iteration) {
  for (auto& [attempt, through] : state.snapshots_through)
    if (attempt < state.attempt) through = std::min(through, iteration);
  state.snapshots_through[state.attempt] = wire::kNoBound;
}

void note_audit(State& state, const wire::ResumeAudit& audit) {
  if (audit.iteration >= state.restarts.resumed) return;
  state.restarts.resumed = audit.iteration;
  note_resumed(state, audit.iteration);
}

}  // namespace stoker::lead
