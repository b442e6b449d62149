// Snapshots in random lives: nodes make them, hold them and say so; what an attempt resumes from
// is whole on its nodes and was not left behind.
#include <algorithm>
#include <fmt/format.h>

#include "tests/lead/life.hpp"

namespace stoker::lead_test {
namespace {

constexpr std::size_t kGenerations = 2;  // of own shards, and of copies

}  // namespace

std::uint64_t Life::seconds() const {
  return static_cast<std::uint64_t>(time_.now().time_since_epoch() / 1s);
}

// Some time after the start of an attempt, if it still runs; a node may not come so far.
void Life::plan_snapshot(const lead::StartAttempt& action) {
  after(random_.between(1s, 30s), [this, action] {
    if (state_.attempt != action.order.attempt || left_) return;
    wire::HeldSnapshot made;
    made.generation = state_.setup.start.generation;
    made.attempt = action.order.attempt;
    made.iteration = Iteration(seconds() + random_.below(60));
    made.shards = action.order.groups * action.order.ranks_per_node;
    for (std::size_t i = 0; i < action.nodes.size(); ++i)
      if (!random_.chance(150)) hold(action.nodes[i], i, made, action);
    plan_snapshot(action);
  });
}

void Life::hold(const NodeName& name, std::size_t place, wire::HeldSnapshot made,
                const lead::StartAttempt& action) {
  Node& node = nodes_.at(name);
  if (!node.agent || node.ranks.empty()) return;
  const std::size_t each = action.order.ranks_per_node;
  const std::size_t before = (place + action.nodes.size() - 1) % action.nodes.size();
  for (const std::size_t from : {place, before})
    for (std::size_t i = 0; i < each; ++i) {
      made.shard = static_cast<std::uint32_t>(from * each + i);
      node.memory.push_back(made);
    }
  while (node.memory.size() > kGenerations * 2 * each) node.memory.pop_front();
  wire::NodeBeat beat;
  beat.attempt = node.attempt;
  beat.snapshots = static_cast<std::uint32_t>(node.memory.size());
  say(name, std::move(beat));
}

void Life::list_snapshots(const NodeName& name) {
  if (random_.chance(50)) return;  // it never answers
  after(soon(20s), [this, name] {
    const Node& node = nodes_.at(name);
    say(name, wire::SnapshotsHeld{{node.memory.begin(), node.memory.end()}, {}});
  });
}

void Life::note_start(const wire::AttemptStarted& started) {
  began_[started.attempt] = started.iteration;
}

void Life::check_memory(const lead::StartAttempt& action) {
  if (!action.order.memory) return;
  ++from_memory_;
  const wire::SnapshotId id = *action.order.memory;
  for (const auto& [attempt, iteration] : began_)
    if (attempt > id.attempt && attempt < action.order.attempt && iteration < id.iteration)
      wrong(fmt::format("iteration {} of attempt {} is used, attempt {} began at {}",
                        id.iteration.value, id.attempt.value, attempt.value, iteration.value));
  const std::uint32_t world = action.order.groups * action.order.ranks_per_node;
  for (std::uint32_t shard = 0; shard < world; ++shard) {
    const auto has = [&](const NodeName& name) {
      const auto& memory = nodes_.at(name).memory;
      return std::any_of(memory.begin(), memory.end(), [&](const wire::HeldSnapshot& held) {
        return held.attempt == id.attempt && held.iteration == id.iteration && held.shard == shard;
      });
    };
    if (std::none_of(action.nodes.begin(), action.nodes.end(), has))
      wrong(fmt::format("no node of attempt {} has shard {} of iteration {}",
                        action.order.attempt.value, shard, id.iteration.value));
  }
}

}  // namespace stoker::lead_test
