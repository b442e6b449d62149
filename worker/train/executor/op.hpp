// Op: the only thing that the executor knows. A schedule is data: a list of them for one rank.
#pragma once

#include <cstdint>
#include <vector>

namespace stoker::train {

enum class OpKind { Forward, Backward };

struct Op {
  OpKind kind = OpKind::Forward;
  std::uint32_t chunk = 0;       // of the model, on this rank
  std::uint32_t microbatch = 0;  // of this step
  friend bool operator==(const Op&, const Op&) = default;
};
using Schedule = std::vector<Op>;

// The schedule of one pipeline stage: forward and backward of each micro-batch in turn, so that the
// activations of one are alive at a time.
inline Schedule single_stage_schedule(std::uint32_t microbatches) {
  Schedule schedule;
  for (std::uint32_t m = 0; m < microbatches; ++m) {
    schedule.push_back({OpKind::Forward, 0, m});
    schedule.push_back({OpKind::Backward, 0, m});
  }
  return schedule;
}

}  // namespace stoker::train
