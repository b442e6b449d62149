#include "kernels/global_norm.hpp"

#include "kernels/clones.hpp"

namespace stoker::kernels {
namespace {

constexpr std::size_t kLanes = 8;

template <class T>
[[gnu::always_inline]] inline double sum(const T* __restrict values, std::size_t count) {
  double lane[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) {
      const auto x = static_cast<double>(values[i + j]);
      lane[j] += x * x;
    }
  for (std::size_t j = 0; i + j < count; ++j) {
    const auto x = static_cast<double>(values[i + j]);
    lane[j] += x * x;
  }
  double total = 0;
  for (const double part : lane) total += part;
  return total;
}

STOKER_CLONES double sum_f32(const float* values, std::size_t count) {
  return sum(values, count);
}
STOKER_CLONES double sum_f64(const double* values, std::size_t count) {
  return sum(values, count);
}

}  // namespace

double sum_of_squares(const float* values, std::size_t count) {
  return sum_f32(values, count);
}
double sum_of_squares(const double* values, std::size_t count) {
  return sum_f64(values, count);
}

}  // namespace stoker::kernels
