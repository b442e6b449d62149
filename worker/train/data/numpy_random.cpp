// See the header; the draw is numpy's random_interval().
#include "worker/train/data/numpy_random.hpp"

#include <bit>

namespace stoker::train {

std::uint64_t NumpyRandom::interval(std::uint64_t max) {
  if (max == 0) return 0;
  const std::uint64_t mask = ~0ull >> std::countl_zero(max);
  while (true) {
    std::uint64_t value = engine_();
    if (max > 0xffffffffull) value = value << 32 | engine_();
    value &= mask;
    if (value <= max) return value;
  }
}

}  // namespace stoker::train
