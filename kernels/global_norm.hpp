// Sum of squares in double, with a fixed order of addition: element i goes to lane i % 8, the lanes
// are added from 0 to 7. So the norm of a buffer is the same bits in every run.
#pragma once

#include <cstddef>

#include "kernels/both.hpp"
#include "kernels/stream.hpp"

namespace stoker::kernels {

double sum_of_squares(const float* values, std::size_t count);
double sum_of_squares(const double* values, std::size_t count);

// The factor for clipping by global norm, clip / (norm + 1e-6) when that is below 1, else 1
// (Megatron clip_grads.py). clip <= 0 means no clipping.
STOKER_BOTH constexpr double clip_scale(double norm, double clip) {
  if (clip <= 0) return 1;
  const double scale = clip / (norm + 1e-6);
  return scale < 1 ? scale : 1;
}

// On the GPU: *total += the sum of squares, in an order that depends on `count` alone, not on the
// card. `partials` has room for kNormPartials values; all pointers are of the device.
inline constexpr std::size_t kNormPartials = 1024;
GpuError add_sum_of_squares(const float* values, std::size_t count, double* partials, double* total,
                            Stream stream);

}  // namespace stoker::kernels
