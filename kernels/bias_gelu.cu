#include <cmath>

#include "kernels/bias_gelu.hpp"
#include "kernels/columns.hpp"

namespace stoker::kernels {
namespace {

constexpr float kScale = 0.7978845608028654f, kCube = 0.044715f;  // sqrt(2 / pi)

// 0.5 (1 + tanh(u)), as a logistic function: one exponential.
__device__ inline float half_tanh(float v) {
  return fast_ratio(1.0f, 1.0f + fast_exp(-2.0f * kScale * (v + kCube * v * v * v)));
}
__device__ inline float gelu(float v) {
  return v * half_tanh(v);
}
// With t = tanh(u) and h = (1 + t) / 2: 1 - t^2 = 4 h (1 - h).
__device__ inline float slope(float v) {
  const float h = half_tanh(v);
  return h + 2.0f * v * h * (1.0f - h) * kScale * (1.0f + 3.0f * kCube * v * v);
}

template <class T>
__global__ void forward_kernel(const T* x, const T* bias, Index count, Index width, T* out) {
  for (Index i = first_element(); i < count; i += all_threads())
    put(out + i, gelu(widen(x[i]) + widen(bias[i % width])));
}

template <class T>
__global__ void forward_packs(const T* x, const T* bias, unsigned packs, unsigned row_packs,
                              T* out) {
  constexpr unsigned kCount = Pack<T>::kCount;
  for (Index i = first_element(); i < packs; i += all_threads()) {
    const Held<T> values = hold(x + i * kCount),
                  add = hold(bias + static_cast<unsigned>(i) % row_packs * kCount);
    store(out + i * kCount, rounded<T>([&](unsigned j) { return gelu(values[j] + add[j]); }));
  }
}

template <class T>
__global__ void backward_kernel(BiasGeluBackward<T> g) {
  const auto width = static_cast<Index>(g.width), count = static_cast<Index>(g.rows) * width;
  for (Index i = first_element(); i < count; i += all_threads())
    put(g.gradient + i, widen(g.upstream[i]) * slope(widen(g.x[i]) + widen(g.bias[i % width])));
}

template <class T>
__global__ void bias_kernel(const T* gradient, Index rows, Index width, float* workspace) {
  sum_group([&](Index row, Index c) { return widen(gradient[row_start(row, width) + c]); }, rows,
            width, workspace);
}

// The gradient and its sums in one pass.
template <class T>
__global__ void backward_packs(BiasGeluBackward<T> g) {
  constexpr unsigned kCount = Pack<T>::kCount, kAhead = 4;  // rows that are asked for at a time
  STOKER_SHARED(float, shared, kWarp* kCount);
  const Stripe<T> stripe(static_cast<Index>(g.rows), static_cast<Index>(g.width));
  float sums[1][kCount] = {};
  each_pack<1>(stripe.packs, [&](unsigned, Index pack) {
    const Held<T> bias = hold(g.bias + stripe.column(pack));
    for (Index row = stripe.rows.begin; row < stripe.rows.end; row += kAhead * kBlockWarps) {
      Held<T> x[kAhead] = {}, up[kAhead] = {};
      for (unsigned i = 0; i < kAhead; ++i) {
        if (row + i * kBlockWarps >= stripe.rows.end) continue;
        x[i] = hold(g.x + stripe.at(row + i * kBlockWarps, pack));
        up[i] = hold(g.upstream + stripe.at(row + i * kBlockWarps, pack));
      }
      for (unsigned i = 0; i < kAhead; ++i) {
        if (row + i * kBlockWarps >= stripe.rows.end) continue;
        const Held<T> gradient =
            rounded<T>([&](unsigned j) { return up[i][j] * slope(x[i][j] + bias[j]); });
        for (unsigned j = 0; j < kCount; ++j) sums[0][j] += gradient[j];
        store(g.gradient + stripe.at(row + i * kBlockWarps, pack), gradient);
      }
    }
  });
  put_stripe(stripe, sums, shared, g.workspace);
}

template <class T>
GpuError forward(const T* x, const T* bias, std::size_t row_count, std::size_t row_width, T* out,
                 Stream stream) {
  const auto rows = static_cast<Index>(row_count), width = static_cast<Index>(row_width);
  if (rows * width == 0) return 0;
  const Index packs = rows * width / Pack<T>::kCount, row_packs = width / Pack<T>::kCount;
  if (in_packs(row_width, x, bias, out) && packs < Index{1} << 32)
    return launch(Grid{blocks_for(packs, kBlockThreads)}, stream, forward_packs<T>, x, bias,
                  static_cast<unsigned>(packs), static_cast<unsigned>(row_packs), out);
  return launch(Grid{blocks_for(rows * width, kBlockThreads)}, stream, forward_kernel<T>, x, bias,
                rows * width, width, out);
}

template <class T>
GpuError gradients(const BiasGeluBackward<T>& g, Stream stream) {
  const auto rows = static_cast<Index>(g.rows), width = static_cast<Index>(g.width);
  if (in_packs(g.width, g.upstream, g.x, g.bias, g.gradient))
    return launch(stripes<T>(rows, width), stream, backward_packs<T>, g);
  const Grid elements{blocks_for(rows * width, kBlockThreads)};
  if (const GpuError e = launch(elements, stream, backward_kernel<T>, g)) return e;
  return launch(group_grid(rows, width), stream, bias_kernel<T>, g.gradient, rows, width,
                g.workspace);
}

template <class T>
GpuError backward(const BiasGeluBackward<T>& g, Stream stream) {
  const auto rows = static_cast<Index>(g.rows), width = static_cast<Index>(g.width);
  if (rows * width == 0) return 0;
  if (const GpuError e = gradients(g, stream)) return e;
  return add_columns(g.workspace, rows, width, g.bias_gradient, stream);
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
