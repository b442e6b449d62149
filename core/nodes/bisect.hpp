// Bisect: which node makes all others slow, found by leaving nodes out at restarts that happen
// anyway. Pure. Each attempt is one observation: its nodes, and whether it was slow. One guilty
// node is assumed: it is among the nodes of every slow attempt, and of no fast one.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"

namespace stoker::core {

struct BisectRound {
  Iteration iteration;
  std::vector<NodeName> out;  // suspects that the attempt went without
  bool slow = false;
  std::uint32_t left = 0;  // suspects that remained
  STOKER_FIELDS(BisectRound, iteration, out, slow, left)
};

struct Bisect {
  std::vector<NodeName> suspects;  // sorted; empty: nothing is being searched for
  std::uint32_t of = 0;            // how many there were at first
  Iteration from;                  // the change
  std::vector<BisectRound> rounds;
  STOKER_FIELDS(Bisect, suspects, of, from, rounds)
};

// The suspects to go without at the next start, when `free` nodes can be spared: half of them. All
// of them, where there are so many spares, would be fast at once, and would never tell which it is.
std::vector<NodeName> next_out(const Bisect& bisect, std::size_t free);
// Starts until one node is left, at worst; ceil(log2 n) when half of the suspects can be spared.
std::uint32_t rounds_left(std::size_t suspects, std::size_t free);
// Takes an attempt's observation in; says what followed from it.
std::string observe(Bisect& bisect, Iteration iteration, const std::vector<NodeName>& nodes,
                    bool slow);

}  // namespace stoker::core
