// Dropout on the GPU: one Philox block and four elements a thread. The mask is drawn where it is
// used and never stored.
#include "common/check.hpp"
#include "kernels/dropout.hpp"
#include "kernels/grid.hpp"

namespace stoker::kernels {
namespace {

template <class T>
__global__ void dropout_kernel(DropoutDraw draw, std::uint32_t first_block, Index count, T kept,
                               const T* in, T* out) {
  const Index groups = (count + 3) / 4;
  for (Index group = first_element(); group < groups; group += all_threads()) {
    const PhiloxCounter words = draw.words(first_block + static_cast<std::uint32_t>(group));
    for (unsigned j = 0; j < 4; ++j) {
      const Index i = 4 * group + j;
      if (i >= count) break;
      const T mask = words[j] >= draw.threshold ? kept : T{};
      if (in == nullptr)
        out[i] = mask;
      else
        put(out + i, widen(in[i]) * widen(mask));
    }
  }
}

void check_range(const DropoutKey& key, std::uint64_t first, std::size_t count) {
  STOKER_CHECK(first % 4 == 0 && first + count <= (std::uint64_t{1} << 34), "dropout range");
  STOKER_CHECK(key.layer < (1u << 24), "dropout layer");
}

template <class T>
GpuError apply(const DropoutKey& key, double p, std::uint64_t first, std::size_t count, T kept,
               const T* in, T* out, Stream stream) {
  check_range(key, first, count);
  if (count == 0) return 0;
  const auto n = static_cast<Index>(count);
  return launch(Grid{blocks_for(n, 4 * kBlockThreads)}, stream, dropout_kernel<T>,
                dropout_draw(key, p), static_cast<std::uint32_t>(first / 4), n, kept, in, out);
}

// A row of blocks a sample; more samples than rows: a row takes several.
template <class T>
__global__ void masks_kernel(DropoutDraw draw, std::uint32_t first_block, Index count, T kept,
                             DropoutSamples samples, T* out) {
  const Index groups = (count + 3) / 4;
  for (Index sample = blockIdx.y; sample < static_cast<Index>(samples.count); sample += gridDim.y) {
    const std::uint64_t id = samples.ids[sample];
    draw.sample_low = static_cast<std::uint32_t>(id);
    draw.sample_high = static_cast<std::uint32_t>(id >> 32);
    T* mask = out + row_start(sample, count);
    for (Index group = first_element(); group < groups; group += all_threads()) {
      const PhiloxCounter words = draw.words(first_block + static_cast<std::uint32_t>(group));
      for (unsigned j = 0; j < 4 && 4 * group + j < count; ++j)
        mask[4 * group + j] = words[j] >= draw.threshold ? kept : T{};
    }
  }
}

template <class T>
GpuError masks(const DropoutKey& key, double p, std::uint64_t first, std::size_t count, T kept,
               const DropoutSamples& samples, T* out, Stream stream) {
  check_range(key, first, count);
  if (count == 0 || samples.count == 0) return 0;
  constexpr std::size_t kMostRows = 65535;
  const auto n = static_cast<Index>(count);
  const dim3 blocks(blocks_for(n, 4 * kBlockThreads),
                    static_cast<unsigned>(std::min(samples.count, kMostRows)));
  return launch(Grid{blocks}, stream, masks_kernel<T>, dropout_draw(key, p),
                static_cast<std::uint32_t>(first / 4), n, kept, samples, out);
}

Bf16 kept_bf16(double p) {
  return to_bf16(static_cast<float>(1.0 / (1.0 - p)));
}

}  // namespace

GpuError dropout_masks(const DropoutKey& key, double p, std::uint64_t first, std::size_t count,
                       const DropoutSamples& samples, float* out, Stream stream) {
  return masks(key, p, first, count, static_cast<float>(1.0 / (1.0 - p)), samples, out, stream);
}
GpuError dropout_masks(const DropoutKey& key, double p, std::uint64_t first, std::size_t count,
                       const DropoutSamples& samples, Bf16* out, Stream stream) {
  return masks(key, p, first, count, kept_bf16(p), samples, out, stream);
}

GpuError dropout(const DropoutKey& key, double p, std::uint64_t first, std::size_t count,
                 const float* in, float* out, Stream stream) {
  return apply(key, p, first, count, static_cast<float>(1.0 / (1.0 - p)), in, out, stream);
}

GpuError dropout(const DropoutKey& key, double p, std::uint64_t first, std::size_t count,
                 const Bf16* in, Bf16* out, Stream stream) {
  return apply(key, p, first, count, kept_bf16(p), in, out, stream);
}

}  // namespace stoker::kernels
