// Position: where a training stands, apart from its tensors. With the configuration it determines
// everything that comes next: learning rate, batch, samples, dropout.
#pragma once

#include "common/ids.hpp"
#include "common/json.hpp"

namespace stoker::train {

struct Position {
  Iteration iteration;                 // completed
  std::uint64_t consumed_samples = 0;  // the data clock
  std::uint64_t consumed_tokens = 0;   // of them: a curriculum reads the beginnings of samples
  std::uint64_t idle_samples = 0;      // of steps that were skipped (not finite): the learning rate
                                       // does not advance with them
  std::uint64_t skipped_steps = 0;
  std::uint64_t data_offset = 0;  // sample id = consumed samples + this (STOKER_SKIP_SAMPLES)
  double lr_scale = 1;
  std::uint64_t optimizer_steps = 0;
  STOKER_FIELDS(Position, iteration, consumed_samples, consumed_tokens, idle_samples, skipped_steps,
                data_offset, lr_scale, optimizer_steps)
};

}  // namespace stoker::train
