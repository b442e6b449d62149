// One block a row. The row is read again for each pass: the second and third read hit the cache.
#include <cmath>

#include "kernels/columns.hpp"
#include "kernels/layer_norm.hpp"

namespace stoker::kernels {
namespace {

template <class T>
__global__ void forward_kernel(LayerNormForward<T> n) {
  STOKER_SHARED(float, scratch, kBlockThreads / kWarp);
  const auto rows = static_cast<Index>(n.rows), width = static_cast<Index>(n.width);
  for (Index row = first_row(); row < rows; row += all_rows()) {
    const Index start = row_start(row, width);
    const T* source = n.value == nullptr ? n.residual : n.sum;
    float part = 0;
    for (Index c = threadIdx.x; c < width; c += blockDim.x) {
      if (n.value != nullptr)
        put(n.sum + start + c, widen(n.residual[start + c]) + widen(n.value[start + c]));
      part += widen(source[start + c]);
    }
    const float mean = block_sum(part, scratch) / static_cast<float>(width);
    part = 0;
    for (Index c = threadIdx.x; c < width; c += blockDim.x) {
      const float x = widen(source[start + c]) - mean;
      part += x * x;
    }
    const float variance = block_sum(part, scratch) / static_cast<float>(width);
    const float rstd = 1.0f / std::sqrt(variance + kLayerNormEps);
    for (Index c = threadIdx.x; c < width; c += blockDim.x)
      put(n.normed + start + c,
          (widen(source[start + c]) - mean) * rstd * widen(n.weight[c]) + widen(n.bias[c]));
    if (threadIdx.x == 0) {
      n.mean[row] = mean;
      n.rstd[row] = rstd;
    }
  }
}

template <class T>
__global__ void backward_kernel(LayerNormBackward<T> n) {
  STOKER_SHARED(float, scratch, kBlockThreads / kWarp);
  const auto rows = static_cast<Index>(n.rows), width = static_cast<Index>(n.width);
  for (Index row = first_row(); row < rows; row += all_rows()) {
    const Index start = row_start(row, width);
    const float mean = n.mean[row], rstd = n.rstd[row];
    float plain = 0, along = 0;  // sums of the gradient of the normalised value
    for (Index c = threadIdx.x; c < width; c += blockDim.x) {
      const float g = widen(n.upstream[start + c]) * widen(n.weight[c]);
      plain += g;
      along += g * ((widen(n.sum[start + c]) - mean) * rstd);
    }
    plain = block_sum(plain, scratch) / static_cast<float>(width);
    along = block_sum(along, scratch) / static_cast<float>(width);
    for (Index c = threadIdx.x; c < width; c += blockDim.x) {
      const float g = widen(n.upstream[start + c]) * widen(n.weight[c]);
      const float x = (widen(n.sum[start + c]) - mean) * rstd;
      const float beside = n.beside == nullptr ? 0.0f : widen(n.beside[start + c]);
      put(n.gradient + start + c, (g - plain - x * along) * rstd + beside);
    }
  }
}

template <class T>
__global__ void parameters_kernel(LayerNormBackward<T> n, float* weights, float* biases) {
  const auto rows = static_cast<Index>(n.rows), width = static_cast<Index>(n.width);
  const auto upstream = [&](Index row, Index c) {
    return widen(n.upstream[row_start(row, width) + c]);
  };
  const auto product = [&](Index row, Index c) {
    const float x = (widen(n.sum[row_start(row, width) + c]) - n.mean[row]) * n.rstd[row];
    return upstream(row, c) * x;
  };
  sum_group(product, rows, width, weights);
  sum_group(upstream, rows, width, biases);
}

template <class T>
GpuError forward(const LayerNormForward<T>& n, Stream stream) {
  if (n.rows == 0 || n.width == 0) return 0;
  return launch(Grid{blocks_for(static_cast<Index>(n.rows), 1)}, stream, forward_kernel<T>, n);
}

template <class T>
GpuError backward(const LayerNormBackward<T>& n, Stream stream) {
  if (n.rows == 0 || n.width == 0) return 0;
  const auto width = static_cast<Index>(n.width);
  float* biases = n.workspace + column_workspace(n.width);
  const Grid rows{blocks_for(static_cast<Index>(n.rows), 1)};
  if (const GpuError e = launch(rows, stream, backward_kernel<T>, n)) return e;
  if (const GpuError e =
          launch(group_grid(width), stream, parameters_kernel<T>, n, n.workspace, biases))
    return e;
  if (const GpuError e = add_columns(n.workspace, width, n.weight_gradient, stream)) return e;
  return add_columns(biases, width, n.bias_gradient, stream);
}

}  // namespace

GpuError layer_norm(const LayerNormForward<float>& norm, Stream stream) {
  return forward(norm, stream);
}
GpuError layer_norm(const LayerNormForward<Bf16>& norm, Stream stream) {
  return forward(norm, stream);
}
GpuError layer_norm_backward(const LayerNormBackward<float>& norm, Stream stream) {
  return backward(norm, stream);
}
GpuError layer_norm_backward(const LayerNormBackward<Bf16>& norm, Stream stream) {
  return backward(norm, stream);
}

LayerNormReference layer_norm_reference(const std::vector<double>& sum,
                                        const std::vector<double>& weight,
                                        const std::vector<double>& bias,
                                        const std::vector<double>& upstream) {
  const std::size_t width = weight.size(), rows = sum.size() / width;
  LayerNormReference r;
  r.sum = sum;
  r.normed.resize(sum.size());
  r.gradient.resize(sum.size());
  r.weight_gradient.resize(width);
  r.bias_gradient.resize(width);
  const auto n = static_cast<double>(width);
  for (std::size_t row = 0; row < rows; ++row) {
    const double* x = sum.data() + row * width;
    const double* up = upstream.data() + row * width;
    double mean = 0, variance = 0, plain = 0, along = 0;
    for (std::size_t c = 0; c < width; ++c) mean += x[c] / n;
    for (std::size_t c = 0; c < width; ++c) variance += (x[c] - mean) * (x[c] - mean) / n;
    const double rstd = 1 / std::sqrt(variance + static_cast<double>(kLayerNormEps));
    for (std::size_t c = 0; c < width; ++c) {
      const double hat = (x[c] - mean) * rstd;
      r.normed[row * width + c] = hat * weight[c] + bias[c];
      plain += up[c] * weight[c] / n;
      along += up[c] * weight[c] * hat / n;
      r.weight_gradient[c] += up[c] * hat;
      r.bias_gradient[c] += up[c];
    }
    for (std::size_t c = 0; c < width; ++c)
      r.gradient[row * width + c] =
          (up[c] * weight[c] - plain - (x[c] - mean) * rstd * along) * rstd;
    r.mean.push_back(mean);
    r.rstd.push_back(rstd);
  }
  return r;
}

}  // namespace stoker::kernels
