#include <cmath>

#include "kernels/bias_gelu.hpp"
#include "kernels/columns.hpp"

namespace stoker::kernels {
namespace {

constexpr float kScale = 0.7978845608028654f, kCube = 0.044715f;  // sqrt(2 / pi)

template <class T>
__global__ void forward_kernel(const T* x, const T* bias, Index count, Index width, T* out) {
  for (Index i = first_element(); i < count; i += all_threads()) {
    const float v = widen(x[i]) + widen(bias[i % width]);
    put(out + i, 0.5f * v * (1.0f + std::tanh(kScale * (v + kCube * v * v * v))));
  }
}

template <class T>
__global__ void backward_kernel(BiasGeluBackward<T> g) {
  const auto width = static_cast<Index>(g.width), count = static_cast<Index>(g.rows) * width;
  for (Index i = first_element(); i < count; i += all_threads()) {
    const float v = widen(g.x[i]) + widen(g.bias[i % width]);
    const float t = std::tanh(kScale * (v + kCube * v * v * v));
    const float slope =
        0.5f * (1.0f + t) + 0.5f * v * (1.0f - t * t) * kScale * (1.0f + 3.0f * kCube * v * v);
    put(g.gradient + i, widen(g.upstream[i]) * slope);
  }
}

template <class T>
__global__ void bias_kernel(const T* gradient, Index rows, Index width, float* workspace) {
  sum_group([&](Index row, Index c) { return widen(gradient[row_start(row, width) + c]); }, rows,
            width, workspace);
}

template <class T>
GpuError forward(const T* x, const T* bias, std::size_t rows, std::size_t width, T* out,
                 Stream stream) {
  const auto count = static_cast<Index>(rows) * static_cast<Index>(width);
  if (count == 0) return 0;
  return launch(Grid{blocks_for(count, kBlockThreads)}, stream, forward_kernel<T>, x, bias, count,
                static_cast<Index>(width), out);
}

template <class T>
GpuError backward(const BiasGeluBackward<T>& g, Stream stream) {
  const auto rows = static_cast<Index>(g.rows), width = static_cast<Index>(g.width);
  if (rows * width == 0) return 0;
  const Grid elements{blocks_for(rows * width, kBlockThreads)};
  if (const GpuError e = launch(elements, stream, backward_kernel<T>, g)) return e;
  if (const GpuError e =
          launch(group_grid(width), stream, bias_kernel<T>, g.gradient, rows, width, g.workspace))
    return e;
  return add_columns(g.workspace, width, g.bias_gradient, stream);
}

}  // namespace

GpuError bias_gelu(const float* x, const float* bias, std::size_t rows, std::size_t width,
                   float* out, Stream stream) {
  return forward(x, bias, rows, width, out, stream);
}
GpuError bias_gelu(const Bf16* x, const Bf16* bias, std::size_t rows, std::size_t width, Bf16* out,
                   Stream stream) {
  return forward(x, bias, rows, width, out, stream);
}
GpuError bias_gelu_backward(const BiasGeluBackward<float>& gelu, Stream stream) {
  return backward(gelu, stream);
}
GpuError bias_gelu_backward(const BiasGeluBackward<Bf16>& gelu, Stream stream) {
  return backward(gelu, stream);
}

double gelu_reference(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double gelu_slope_reference(double x) {
  const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

}  // namespace stoker::kernels
