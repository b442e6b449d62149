// gpu_speed: how fast the kernels move bytes, beside a copy of the same card. One JSON document:
// for each kernel the bytes it must move at least (each input read once, each output written once),
// the median time and the share of the copy's bandwidth; for attention the operations of its
// products in place of bytes. It checks no results: gpu_kernels does.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <functional>
#include <string>
#include <vector>

#include "kernels/adamw.hpp"
#include "kernels/attention.hpp"
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

void report_products(const std::string& name, double operations, const std::function<int()>& run) {
  const double s = seconds_of(run);
  std::printf("%s\n  {\"name\": \"%s\", \"us\": %.1f, \"tflops\": %.1f}", first ? "" : ",",
              name.c_str(), s * 1e6, operations / s / 1e12);
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

// As in training: query, key and value of a head beside each other in rows of all heads. Products
// of keys up to their query alone: two in the forward pass, five in the backward pass.
void attentions(std::size_t samples, std::size_t heads, double p) {
  const std::size_t sequence = 1024, width = 64, row = heads * width;
  const std::size_t count = samples * sequence * row, numbers = samples * heads * sequence;
  Bf16 *qkv = halves(3 * count), *gradients = halves(3 * count), *out = halves(count),
       *upstream = halves(count);
  float *log_sum = floats(numbers), *delta = floats(numbers);
  void* ids = nullptr;
  must(cudaMalloc(&ids, samples * sizeof(std::uint64_t)), "memory");
  must(cudaMemset(ids, 1, samples * sizeof(std::uint64_t)), "memory");
  AttentionForward<Bf16> a;
  a.query = qkv, a.key = qkv + width, a.value = qkv + 2 * width;
  a.out = out, a.log_sum = log_sum, a.shape = {samples, heads, sequence, width};
  a.inputs = {3 * sequence * row, 3 * width, 3 * row}, a.outs = {sequence * row, width, row};
  if (p > 0)
    a.dropout = {static_cast<const std::uint64_t*>(ids),
                 dropout_draw({9, 0, 2, DropoutSite::Attention}, p),
                 static_cast<float>(1 / (1 - p))};
  const AttentionBackward<Bf16> b{
      a, upstream, gradients, gradients + width, gradients + 2 * width, delta};
  const double product = 2.0 * static_cast<double>(numbers) * sequence * width / 2;
  const std::string of = ", " + std::to_string(samples) + " x " + std::to_string(heads) +
                         " x 1024 x 64" + (p > 0 ? ", dropout" : "");
  report_products("attention" + of, 2 * product, [&] { return attention(a, nullptr); });
  report_products("attention backward" + of, 5 * product,
                  [&] { return attention_backward(b, nullptr); });
  for (void* memory :
       {static_cast<void*>(qkv), static_cast<void*>(gradients), static_cast<void*>(out),
        static_cast<void*>(upstream), static_cast<void*>(log_sum), static_cast<void*>(delta), ids})
    must(cudaFree(memory), "memory");
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
  for (const double p : {0.0, 0.1}) {
    attentions(32, 12, p);
    attentions(16, 25, p);
  }
  std::puts("\n]}");
}
