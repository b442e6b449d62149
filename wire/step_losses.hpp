// StepLosses: the losses of several iterations in a few numbers, so that a beat can carry what
// happened between two looks at it: the level (mean), the one that stood out (highest, where), what
// was no number, what was skipped. Folding in any order of the parts gives the same counts and
// extremes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/json.hpp"

namespace stoker::wire {

struct StepLosses {
  std::uint64_t count = 0;             // iterations with a finite loss
  double mean = 0, low = 0, high = 0;  // of those
  Iteration high_at;                   // iteration of `high`
  std::uint64_t not_finite = 0;        // iterations whose loss was no number
  std::uint64_t skipped = 0;           // iterations without a step of the optimizer
  double gradient_norm = 0;            // largest finite one
  double scale = 0;                    // loss scale, the newest; 0 = unknown
  // Largest finite gradient norm of each group of layers; empty: the training does not say them.
  std::vector<double> groups;
  STOKER_FIELDS(StepLosses, count, mean, low, high, high_at, not_finite, skipped, gradient_norm,
                scale, groups)
};

// What one iteration reported; what it did not report is empty.
struct StepTold {
  Iteration iteration;
  std::optional<double> loss;  // not finite: it was printed so
  std::optional<double> gradient_norm, scale;
  std::uint64_t skipped = 0, not_finite = 0;  // as the program counts them
  std::vector<double> groups{};
};

void add(StepLosses& losses, const StepTold& told);
void merge(StepLosses& losses, const StepLosses& later);

inline constexpr std::size_t kMostLayerGroups = 256;
// Of `groups` in the order of the model: "embedding", "layer 0", …, "final norm".
std::string layer_group_name(std::size_t index, std::size_t groups);

}  // namespace stoker::wire
