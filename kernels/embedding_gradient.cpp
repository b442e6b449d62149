#include "kernels/embedding_gradient.hpp"

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
