// gpu_speed: how fast the kernels move bytes, beside a copy of the same card. One JSON document:
// for each kernel the bytes it must move at least (each input read once, each output written once),
// the median time and the share of the copy's bandwidth. It checks no results: gpu_kernels does.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <functional>
#include <string>
#include <vector>

#include "kernels/adamw.hpp"
#include "kernels/bias_gelu.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/global_norm.hpp"
#include "kernels/layer_norm.hpp"

using namespace stoker::kernels;

namespace {

void must(int error, const char* doing) {
  if (error == 0) return;
  std::fprintf(stderr, "%s: %s\n", doing, cudaGetErrorString(static_cast<cudaError_t>(error)));
  std::exit(1);
}

// Values that are no zeros: a card computes faster on zeros.
__global__ void fill_kernel(float* to, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x)
    to[i] = static_cast<float>((i * 2654435761u) % 2001) / 1000.0f - 1.0f;
}

float* floats(std::size_t count) {
  void* memory = nullptr;
  must(cudaMalloc(&memory, count * sizeof(float)), "memory");
  fill_kernel<<<1024, 256>>>(static_cast<float*>(memory), count);
  must(cudaGetLastError(), "filling");
  return static_cast<float*>(memory);
}

Bf16* halves(std::size_t count) {
  float* wide = floats(count);
  void* memory = nullptr;
  must(cudaMalloc(&memory, count * sizeof(Bf16)), "memory");
  must(round_to_bf16(wide, static_cast<Bf16*>(memory), count, nullptr), "rounding");
  must(cudaFree(wide), "memory");
  return static_cast<Bf16*>(memory);
}

// Median of 15 after 3, in seconds.
double seconds_of(const std::function<int()>& run) {
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin), "event");
  must(cudaEventCreate(&end), "event");
  std::vector<double> all;
  for (int i = 0; i < 18; ++i) {
    must(cudaEventRecord(begin), "event");
    must(run(), "kernel");
    must(cudaEventRecord(end), "event");
    must(cudaEventSynchronize(end), "kernel");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, begin, end), "event");
    if (i >= 3) all.push_back(ms / 1e3);
  }
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

double copy_rate = 0;  // bytes a second, read and written
bool first = true;

void report(const char* name, double bytes, const std::function<int()>& run) {
  const double s = seconds_of(run), rate = bytes / s;
  if (copy_rate == 0) copy_rate = rate;
  std::printf(
      "%s\n  {\"name\": \"%s\", \"bytes\": %.0f, \"us\": %.1f, \"gb_s\": %.0f, \"of_copy\": %.3f}",
      first ? "" : ",", name, bytes, s * 1e6, rate / 1e9, rate / copy_rate);
  first = false;
}

constexpr std::size_t kRows = 131072, kWidth = 768;

void layer_norms(std::size_t width) {
  const std::size_t count = kRows * width;
  Bf16 *residual = halves(count), *value = halves(count), *sum = halves(count),
       *normed = halves(count);
  Bf16 *weight = halves(width), *bias = halves(width);
  float *mean = floats(kRows), *rstd = floats(kRows);
  LayerNormForward<Bf16> forward{residual, value, weight, bias,  sum,
                                 normed,   mean,  rstd,   kRows, width};
  const std::string of = ", width " + std::to_string(width);
  report(("residual + layer norm" + of).c_str(), 4.0 * 2 * count,
         [&] { return layer_norm(forward, nullptr); });
  LayerNormBackward<Bf16> backward;
  backward.upstream = residual, backward.beside = value, backward.sum = sum,
  backward.weight = weight;
  backward.mean = mean, backward.rstd = rstd, backward.gradient = normed;
  backward.weight_gradient = floats(width), backward.bias_gradient = floats(width);
  backward.workspace = floats(2 * column_workspace(width));
  backward.rows = kRows, backward.width = width;
  report(("layer norm backward" + of).c_str(), 4.0 * 2 * count,
         [&] { return layer_norm_backward(backward, nullptr); });
  for (Bf16* p : {residual, value, sum, normed}) must(cudaFree(p), "memory");
}

void gelus() {
  const std::size_t width = 4 * kWidth, rows = kRows / 4, count = rows * width;
  Bf16 *x = halves(count), *out = halves(count), *bias = halves(width);
  report("bias + GELU, bf16", 2.0 * 2 * count,
         [&] { return bias_gelu(x, bias, rows, width, out, nullptr); });
  BiasGeluBackward<Bf16> backward;
  backward.upstream = out, backward.x = x, backward.bias = bias, backward.gradient = out;
  backward.bias_gradient = floats(width), backward.workspace = floats(column_workspace(width));
  backward.rows = rows, backward.width = width;
  report("bias + GELU backward, bf16", 3.0 * 2 * count,
         [&] { return bias_gelu_backward(backward, nullptr); });
  for (Bf16* p : {x, out}) must(cudaFree(p), "memory");
}

void cross_entropies() {
  const std::size_t tokens = 8192, vocabulary = 50257, stride = 50304;
  CrossEntropy<Bf16> chunk;
  chunk.logits = halves(tokens * stride);
  void* targets = nullptr;
  must(cudaMalloc(&targets, tokens * sizeof(std::int64_t)), "memory");
  must(cudaMemset(targets, 0, tokens * sizeof(std::int64_t)), "memory");
  chunk.targets = static_cast<const std::int64_t*>(targets);
  chunk.losses = floats(tokens);
  chunk.tokens = tokens, chunk.vocabulary = vocabulary, chunk.stride = stride;
  report("cross entropy with its gradient, bf16", 2.0 * 2 * tokens * stride,
         [&] { return cross_entropy(chunk, nullptr); });
  must(cudaFree(chunk.logits), "memory");
}

void optimizer() {
  const std::size_t count = 124'000'000;
  AdamwRange<float> range{floats(count), floats(count), floats(count),
                          floats(count), halves(count), count};
  must(cudaMemset(range.moment2, 0, count * sizeof(float)), "memory");
  AdamwStep step;
  step.learning_rate = 1e-4, step.weight_decay = 0.1;
  report("AdamW with bf16 rounding", (4.0 * 4 + 3 * 4 + 2) * count,
         [&] { return adamw(step, range, {}, {}, nullptr); });
  void *partials = nullptr, *total = nullptr;
  must(cudaMalloc(&partials, kNormPartials * sizeof(double)), "memory");
  must(cudaMalloc(&total, sizeof(double)), "memory");
  report("global norm", 4.0 * count, [&] {
    return add_sum_of_squares(range.gradient, count, static_cast<double*>(partials),
                              static_cast<double*>(total), nullptr);
  });
}

}  // namespace

int main() {
  cudaDeviceProp card;
  if (cudaGetDeviceProperties(&card, 0) != cudaSuccess) {
    std::puts("SKIPPED: no GPU");
    return 77;
  }
  std::printf("{\"card\": \"%s\", \"kernels\": [", card.name);
  const std::size_t bytes = std::size_t{2} << 30;
  float *from = floats(bytes / 4), *to = floats(bytes / 4);
  report("copy", 2.0 * bytes,
         [&] { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr); });
  must(cudaFree(from), "memory");
  must(cudaFree(to), "memory");
  layer_norms(768);
  layer_norms(1600);
  gelus();
  cross_entropies();
  optimizer();
  std::puts("\n]}");
}
