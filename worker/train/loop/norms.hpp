// Norms: what of the gradients and parameters is logged on request (log.norms), beside the norm of
// all gradients: each layer's own, that of the parameters, and how many gradients are zero.
#pragma once

#include <string>
#include <vector>

#include "common/ids.hpp"
#include "worker/train/state/flat_state.hpp"

namespace stoker::train {

struct Norms {
  struct Group {
    std::string name;  // "embedding" "layer 0" … "final norm"
    double gradients = 0;
  };
  std::vector<Group> groups;
  double parameters = 0;
  double zeros = 0;  // gradients that are exactly 0
};

// Collective over the world, while the gradients of the step are there, summed up and not clipped.
// Every element counts once.
Result<Norms> measure_norms(Comm& comm, const FlatState& state, std::uint64_t layers,
                            Duration deadline);
// One line, without newline.
std::string format_norms_line(Iteration iteration, const Norms& norms);

}  // namespace stoker::train
