// Pass: what every part of a forward or backward pass knows of its micro-batch.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/train/device/device.hpp"

namespace stoker::train {

// `ids` key the dropout; null: no dropout.
struct Pass {
  std::int64_t samples = 0, sequence = 0;
  // Of each sample, what this rank has outside of the products: all of it, or with sequence
  // parallelism an equal part (Korthikanti et al. 2022).
  std::int64_t own_tokens = 0, first_token = 0;
  std::int64_t heads = 0, first_head = 0;  // of this tensor rank
  std::int64_t head_size = 0;
  double dropout = 0;
  std::uint64_t seed = 0;
  Device* device = nullptr;  // draws the dropout; null: the CPU
  const std::vector<std::uint64_t>* ids = nullptr;
  const std::uint64_t* device_ids = nullptr;  // the same in the device's memory
  [[nodiscard]] bool drops() const { return ids != nullptr && dropout > 0; }
};

}  // namespace stoker::train
