// Rows of packs that a warp (backward: a team of warps) holds in its registers: each element is
// read once. Others: again for each pass, from the cache, and for the sums over the rows.
#include <cmath>
#include <type_traits>

#include "kernels/columns.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/layer_norm_teams.hpp"

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

template <class T, unsigned kMost>
__global__ void forward_packs(LayerNormForward<T> n) {
  constexpr unsigned kCount = Pack<T>::kCount;
  const auto rows = static_cast<Index>(n.rows), width = static_cast<Index>(n.width);
  const Index packs = width / kCount;
  const auto size = static_cast<float>(width);
  for (Index row = first_element() / kWarp; row < rows; row += all_threads() / kWarp) {
    const Index start = row_start(row, width);
    Held<T> x[kMost], value[kMost];
    float part = 0;
    each_pack<kMost>(packs, [&](unsigned i, Index pack) {  // before any store: all at a time
      x[i] = hold(n.residual + start + pack * kCount);
      if (n.value != nullptr) value[i] = hold(n.value + start + pack * kCount);
    });
    each_pack<kMost>(packs, [&](unsigned i, Index pack) {
      if (n.value != nullptr) {
        Pack<T> sum;
        for (unsigned j = 0; j < kCount; ++j) put(sum.values + j, x[i][j] + value[i][j]);
        store(n.sum + start + pack * kCount, sum);
        x[i] = std::bit_cast<Held<T>>(sum);
      }
      for (unsigned j = 0; j < kCount; ++j) part += x[i][j];
    });
    const float mean = warp_sum(part) / size;
    part = 0;
    each_pack<kMost>(packs, [&](unsigned i, Index) {
      for (unsigned j = 0; j < kCount; ++j) {
        const float off = x[i][j] - mean;
        part += off * off;
      }
    });
    const float rstd = 1.0f / std::sqrt(warp_sum(part) / size + kLayerNormEps);
    each_pack<kMost>(packs, [&](unsigned i, Index pack) {
      const Pack<T> weight = load(n.weight + pack * kCount), bias = load(n.bias + pack * kCount);
      Pack<T> out;
      for (unsigned j = 0; j < kCount; ++j)
        put(out.values + j,
            (x[i][j] - mean) * rstd * widen(weight.values[j]) + widen(bias.values[j]));
      store(n.normed + start + pack * kCount, out);
    });
    if (threadIdx.x % kWarp == 0) n.mean[row] = mean, n.rstd[row] = rstd;
  }
}

// Wider rows. The second pass reads the row again, from the cache: held in registers it would leave
// few warps.
template <class T>
__global__ void backward_packs(LayerNormBackward<T> n) {
  constexpr unsigned kCount = Pack<T>::kCount;
  const auto rows = static_cast<Index>(n.rows), width = static_cast<Index>(n.width);
  const auto size = static_cast<float>(width);
  const Index first = threadIdx.x % kWarp * kCount, step = kWarp * kCount;
  for (Index row = first_element() / kWarp; row < rows; row += all_threads() / kWarp) {
    const Index start = row_start(row, width);
    const float mean = n.mean[row], rstd = n.rstd[row];
    float plain = 0, along = 0;
    for (Index c = first; c < width; c += step) {
      const Pack<T> upstream = load(n.upstream + start + c), x = load(n.sum + start + c),
                    weight = load(n.weight + c);
      for (unsigned j = 0; j < kCount; ++j) {
        const float g = widen(upstream.values[j]) * widen(weight.values[j]);
        plain += g;
        along += g * ((widen(x.values[j]) - mean) * rstd);
      }
    }
    plain = warp_sum(plain) / size;
    along = warp_sum(along) / size;
    for (Index c = first; c < width; c += step) {
      const Pack<T> upstream = load(n.upstream + start + c), x = load(n.sum + start + c),
                    weight = load(n.weight + c);
      Pack<T> out{};
      if (n.beside != nullptr) out = load(n.beside + start + c);
      for (unsigned j = 0; j < kCount; ++j) {
        const float g = widen(upstream.values[j]) * widen(weight.values[j]);
        const float hat = (widen(x.values[j]) - mean) * rstd;
        put(out.values + j, (g - plain - hat * along) * rstd + widen(out.values[j]));
      }
      store(n.gradient + start + c, out);
    }
  }
}

// The sums over the rows, of a stripe: they read both tensors again, and need registers that the
// rows above have no use for.
template <class T>
__global__ void parameters_packs(LayerNormBackward<T> n, float* weights, float* biases) {
  constexpr unsigned kCount = Pack<T>::kCount, kAhead = 4;  // rows that are asked for at a time
  STOKER_SHARED(float, shared, kWarp* kCount);
  const Stripe<T> stripe(static_cast<Index>(n.rows), static_cast<Index>(n.width));
  float along[1][kCount] = {}, plain[1][kCount] = {};
  each_pack<1>(stripe.packs, [&](unsigned, Index pack) {
    for (Index row = stripe.rows.begin; row < stripe.rows.end; row += kAhead * kBlockWarps) {
      Pack<T> upstream[kAhead] = {}, x[kAhead] = {};
      for (unsigned i = 0; i < kAhead; ++i) {
        if (row + i * kBlockWarps >= stripe.rows.end) continue;
        upstream[i] = load(n.upstream + stripe.at(row + i * kBlockWarps, pack));
        x[i] = load(n.sum + stripe.at(row + i * kBlockWarps, pack));
      }
      for (unsigned i = 0; i < kAhead; ++i) {
        const Index at = std::min(row + i * kBlockWarps, stripe.rows.end - 1);
        const float mean = n.mean[at], rstd = n.rstd[at];
        for (unsigned j = 0; j < kCount; ++j) {
          const float up = widen(upstream[i].values[j]);
          plain[0][j] += up;
          along[0][j] += up * ((widen(x[i].values[j]) - mean) * rstd);
        }
      }
    }
  });
  put_stripe(stripe, along, shared, weights);
  __syncthreads();  // the sums are copied before the next ones come
  put_stripe(stripe, plain, shared, biases);
}

// The packs of a row that a lane holds; more than kMostPacks do not fit its registers.
constexpr std::size_t kMostPacks = 8;
template <class T>
std::size_t packs_of_lane(std::size_t width) {
  return (width / Pack<T>::kCount + kWarp - 1) / kWarp;
}
// f with a constant that is at least `packs`.
template <class F>
GpuError with_packs(std::size_t packs, F f) {
  switch (packs) {
    case 1: return f(std::integral_constant<unsigned, 1>{});
    case 2: return f(std::integral_constant<unsigned, 2>{});
    case 3: return f(std::integral_constant<unsigned, 3>{});
    case 4: return f(std::integral_constant<unsigned, 4>{});
    case 5:
    case 6: return f(std::integral_constant<unsigned, 6>{});
    case 7: return f(std::integral_constant<unsigned, 7>{});
    default: return f(std::integral_constant<unsigned, 8>{});
  }
}

template <class T>
GpuError forward(const LayerNormForward<T>& n, Stream stream) {
  if (n.rows == 0 || n.width == 0) return 0;
  const auto rows = static_cast<Index>(n.rows);
  const std::size_t packs = packs_of_lane<T>(n.width);
  if (packs > kMostPacks ||
      !in_packs(n.width, n.residual, n.value, n.weight, n.bias, n.sum, n.normed))
    return launch(Grid{blocks_for(rows, 1)}, stream, forward_kernel<T>, n);
  return with_packs(packs, [&](auto most) {
    return launch(Grid{blocks_for(rows, kBlockWarps)}, stream, forward_packs<T, most()>, n);
  });
}

template <class T>
GpuError gradients(const LayerNormBackward<T>& n, float* biases, Stream stream) {
  const auto rows = static_cast<Index>(n.rows), width = static_cast<Index>(n.width);
  if (in_packs(n.width, n.upstream, n.beside, n.sum, n.weight, n.gradient)) {
    if (const unsigned threads = team_threads(width / Pack<T>::kCount); threads <= kMostThreads)
      return launch(Grid{static_cast<unsigned>(row_groups(rows)), threads * team_count(threads)},
                    stream, backward_teams<T>, n, n.workspace, biases, threads);
    const Grid grid{blocks_for(rows, kBlockWarps)};
    if (const GpuError e = launch(grid, stream, backward_packs<T>, n)) return e;
    return launch(stripes<T>(rows, width), stream, parameters_packs<T>, n, n.workspace, biases);
  }
  const Grid grid{blocks_for(rows, 1)};
  if (const GpuError e = launch(grid, stream, backward_kernel<T>, n)) return e;
  return launch(group_grid(rows, width), stream, parameters_kernel<T>, n, n.workspace, biases);
}

template <class T>
GpuError backward(const LayerNormBackward<T>& n, Stream stream) {
  if (n.rows == 0 || n.width == 0) return 0;
  const auto rows = static_cast<Index>(n.rows), width = static_cast<Index>(n.width);
  float* biases = n.workspace + column_workspace(n.width);
  if (const GpuError e = gradients(n, biases, stream)) return e;
  if (const GpuError e = add_columns(n.workspace, rows, width, n.weight_gradient, stream)) return e;
  return add_columns(biases, rows, width, n.bias_gradient, stream);
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
