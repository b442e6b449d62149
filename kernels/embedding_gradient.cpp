#include "kernels/embedding_gradient.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "common/check.hpp"

namespace stoker::kernels {
namespace {

double widen(double x) {
  return x;
}
float widen(float x) {
  return x;
}
float widen(Bf16 x) {
  return to_float(x);
}

template <class From, class To>
void scatter(const std::int64_t* tokens, std::size_t count, std::size_t width,
             const From* __restrict upstream, To* __restrict gradient) {
  for (std::size_t i = 0; i < count; ++i) {
    To* row = gradient + static_cast<std::size_t>(tokens[i]) * width;
    for (std::size_t j = 0; j < width; ++j) row[j] += widen(upstream[i * width + j]);
  }
}

}  // namespace

std::vector<std::uint32_t> embedding_order(const std::int64_t* tokens, std::size_t count) {
  STOKER_CHECK(count <= std::numeric_limits<std::uint32_t>::max(), "too many tokens to sort");
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [tokens](std::uint32_t a, std::uint32_t b) { return tokens[a] < tokens[b]; });
  return order;
}

void embedding_gradient(const std::int64_t* tokens, std::size_t count, std::size_t width,
                        const float* upstream, float* gradient) {
  scatter(tokens, count, width, upstream, gradient);
}
void embedding_gradient(const std::int64_t* tokens, std::size_t count, std::size_t width,
                        const double* upstream, double* gradient) {
  scatter(tokens, count, width, upstream, gradient);
}
void embedding_gradient(const std::int64_t* tokens, std::size_t count, std::size_t width,
                        const Bf16* upstream, float* gradient) {
  scatter(tokens, count, width, upstream, gradient);
}

}  // namespace stoker::kernels
