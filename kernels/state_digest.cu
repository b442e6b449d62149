// The state digest on the GPU: sums of integers, so that the order of blocks does not matter.
#include "kernels/grid.hpp"
#include "kernels/state_digest.hpp"

namespace stoker::kernels {
namespace {

constexpr Index kEach = 16;  // elements of a thread: one atomic addition a block costs little then

__global__ void digest_kernel(std::uint64_t start, const float* values, Index count,
                              DigestSums* total) {
  STOKER_SHARED(unsigned long long, scratch, kBlockThreads / kWarp);
  DigestSums sums;
  for (Index i = first_element(); i < count; i += all_threads())
    digest_element(start, static_cast<std::uint64_t>(i), std::bit_cast<std::uint32_t>(values[i]),
                   sums);
  const unsigned long long low = block_sum(sums.low, scratch);
  const unsigned long long high = block_sum(sums.high, scratch);
  if (threadIdx.x != 0) return;
  atomicAdd(&total->low, low);
  atomicAdd(&total->high, high);
}

}  // namespace

GpuError add_digest(std::string_view name, std::uint64_t first, const float* values,
                    std::size_t count, DigestSums* sums, Stream stream) {
  if (count == 0) return 0;
  const auto n = static_cast<Index>(count);
  return launch(Grid{blocks_for(n, kBlockThreads * kEach)}, stream, digest_kernel,
                digest_start(name, first), values, n, sums);
}

}  // namespace stoker::kernels
