// NormWatch: in which group of layers did the gradient norm rise first? Pure: readings in. A group
// is the embedding, a layer or the final norm; a reading is the largest norm of each over one or
// many iterations (wire/step_losses.hpp), which a training sends with log.norms. What is usual is
// learned for each group over about its last 64 calm readings. Of several groups that rise in one
// reading, the one counts that lies furthest above its own limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/json.hpp"

namespace stoker::core::signals {

struct Rise {
  std::string group;    // "layer 3"
  Iteration iteration;  // the newest of its reading
  double usual = 0, norm = 0;
  STOKER_FIELDS(Rise, group, iteration, usual, norm)
};

struct NormWatch {
  std::uint32_t seen = 0;             // readings learned from, at most the 64
  std::vector<double> usual, spread;  // of each group: mean, mean distance from it
  std::optional<Rise> rise;           // the first since all groups were calm
  std::uint32_t calm = 0, risen = 0;  // readings in a row
  STOKER_FIELDS(NormWatch, seen, usual, spread, rise, calm, risen)
};

// `norms`: one for each group; empty: the training sends none, and nothing happens.
void watch_norms(NormWatch& watch, const std::vector<double>& norms, Iteration iteration);
// The iterations after `iteration` are trained again.
void forget_after(NormWatch& watch, Iteration iteration);

// ", that of layer 3 rose first (0.08 -> 12.1 by iteration 31212)"; "" where none is known.
std::string rise_text(const std::optional<Rise>& rise);

}  // namespace stoker::core::signals
