// What the numbers of the training itself say, turned into decisions: the loss (loss.hpp), the
// speed (throughput.hpp, bisect.hpp), and whether a start goes on where the line before it was
// (recover/resume_trail.hpp).
#pragma once

#include "core/turn.hpp"

namespace stoker::core {

// An attempt of the ranks began, behind `from` (0: unknown).
void begin_numbers(Turn& turn, Iteration from);
// The newest checkpoint as far as agents or lines tell.
void note_saved(Turn& turn, Iteration iteration);
// It is damaged or deleted: a start can only be held against an older one.
void forget_saved(RunState& run, Iteration iteration);
// The digest of a training that goes on.
void watch_numbers(Turn& turn, const Digest& digest);

// slow.cpp
void watch_slow(Turn& turn, const Digest& digest);
// Suspects that the next start should go without, of at most `free` nodes.
std::vector<NodeName> bisected_out(const RunState& run, std::size_t free);
// What a restart of its own would cost and gain while the run is slow.
struct RestartWorth {
  Duration cost{}, gain{};
  double chance = 0;  // that the guilty node is among those that can be left out
};
std::optional<RestartWorth> restart_worth(const RunState& run, WallTime wall);
// Nodes that a start can go without: spares that are left.
std::size_t spare_nodes(const RunState& run);

}  // namespace stoker::core
