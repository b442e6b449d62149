// Sum of squares in double, with a fixed order of addition: element i goes to lane i % 8, the lanes
// are added from 0 to 7. So the norm of a buffer is the same bits in every run.
#pragma once

#include <cstddef>

namespace stoker::kernels {

double sum_of_squares(const float* values, std::size_t count);
double sum_of_squares(const double* values, std::size_t count);

// The factor for clipping by global norm, clip / (norm + 1e-6) when that is below 1, else 1
// (Megatron clip_grads.py). clip <= 0 means no clipping.
double clip_scale(double norm, double clip);

}  // namespace stoker::kernels
