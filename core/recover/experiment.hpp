// Experiment: a rollback, written down with the line that it left so that the two can be compared.
#pragma once

#include <optional>
#include <string>

#include "common/json.hpp"
#include "common/time.hpp"

namespace stoker::core {

struct Experiment {
  std::uint32_t number = 1;
  std::string by;  // "stoker", or who ordered it
  WallTime wall;
  Iteration to, left;      // from `left` back to `to`
  Generation generation;   // whose checkpoint of `to`
  Generation through;      // the newest generation when it was ordered
  Iteration compare_from;  // the losses from here to `left` are compared
  double lr_scale = 1;
  std::uint64_t skip = 0;
  std::optional<double> left_loss, now_loss;  // means over those iterations
  bool not_finite = false;                    // the line that it left had no number there
  bool judged = false, better = false;
  STOKER_FIELDS(Experiment, number, by, wall, to, left, generation, through, compare_from, lr_scale,
                skip, left_loss, now_loss, not_finite, judged, better)
};

}  // namespace stoker::core
