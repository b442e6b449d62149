// The global norm on the GPU: each block adds its elements in double, then one block adds the sums
// of the blocks.
#include "kernels/global_norm.hpp"
#include "kernels/grid.hpp"

namespace stoker::kernels {
namespace {

constexpr Index kEach = 16;  // elements of a thread, before more blocks are worth it

__global__ void partial_sums(const float* values, Index count, double* partials) {
  STOKER_SHARED(double, scratch, kBlockThreads / kWarp);
  double sum = 0;
  for (Index i = first_element(); i < count; i += all_threads()) {
    const auto x = static_cast<double>(values[i]);
    sum += x * x;
  }
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void total_sum(const double* partials, Index count, double* total) {
  STOKER_SHARED(double, scratch, kBlockThreads / kWarp);
  double sum = 0;
  for (Index i = threadIdx.x; i < count; i += blockDim.x) sum += partials[i];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) *total += sum;
}

}  // namespace

GpuError add_sum_of_squares(const float* values, std::size_t count, double* partials, double* total,
                            Stream stream) {
  if (count == 0) return 0;
  const auto n = static_cast<Index>(count);
  const unsigned blocks =
      std::min(blocks_for(n, kBlockThreads * kEach), static_cast<unsigned>(kNormPartials));
  if (const GpuError e = launch(Grid{blocks}, stream, partial_sums, values, n, partials)) return e;
  return launch(Grid{1}, stream, total_sum, partials, static_cast<Index>(blocks), total);
}

}  // namespace stoker::kernels
