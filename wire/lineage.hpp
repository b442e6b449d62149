// Lineage: which checkpoints count. Checkpoint directories carry step and generation
// ("step-000123.g000017") and are never replaced; a reader accepts only those of the ancestry that
// gen-*/start.json names, never simply the highest number. So a late writer of a generation that
// was given up leaves rubbish, never damage.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"

namespace stoker::wire {

inline constexpr Iteration kNoBound{std::numeric_limits<std::uint64_t>::max()};

struct LineageEntry {
  Generation generation;
  Iteration through =
      kNoBound;  // checkpoints of that generation count up to and including this iteration
  STOKER_FIELDS(LineageEntry, generation, through)
};
using Lineage = std::vector<LineageEntry>;  // oldest ancestor first, the generation itself last

bool accepts(const Lineage& lineage, Generation generation, Iteration iteration);

// The lineage of a new generation that resumes at `step` of `parent`: the parent's, cut at `step`,
// and itself without bound. step 0 = from scratch: only itself.
Lineage descend(const Lineage& parent, Iteration step, Generation child);

// "step-000123.g000017" and back; more digits where the numbers need them.
std::string checkpoint_name(Iteration iteration, Generation generation);
struct CheckpointId {
  Iteration iteration;
  Generation generation;
  auto operator<=>(const CheckpointId&) const = default;
};
std::optional<CheckpointId> parse_checkpoint_name(std::string_view name);

std::string generation_name(Generation generation);  // "gen-000017"
std::optional<Generation> parse_generation_name(std::string_view name);

}  // namespace stoker::wire
