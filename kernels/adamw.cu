// AdamW on the GPU: one thread an element, 14 bytes read and 14 or 12 written each.
#include "kernels/adamw.hpp"
#include "kernels/adamw_element.hpp"
#include "kernels/global_norm.hpp"
#include "kernels/grid.hpp"

namespace stoker::kernels {
namespace {

// Whether an odd number of bounds is at or before the element.
__device__ inline bool is_exempt(const AdamwExempt& exempt, std::uint64_t element) {
  std::size_t below = 0, end = exempt.count;
  while (below < end) {
    const std::size_t middle = (below + end) / 2;
    if (exempt.bounds[middle] <= element)
      below = middle + 1;
    else
      end = middle;
  }
  return below % 2 == 1;
}

__global__ void adamw_kernel(AdamwConstants<float> c, AdamwRange<float> r, AdamwExempt exempt,
                             DeviceClip clip) {
  if (clip.squares != nullptr)
    c.scale = static_cast<float>(clip_scale(square_root(*clip.squares), clip.clip));
  const auto count = static_cast<Index>(r.count);
  const float keep = c.keep;
  for (Index i = first_element(); i < count; i += all_threads()) {
    c.keep = is_exempt(exempt, static_cast<std::uint64_t>(i)) ? 1.0f : keep;
    adamw_element(c, r.gradient[i], r.master[i], r.moment1[i], r.moment2[i]);
    if (r.parameter != nullptr) r.parameter[i] = to_bf16(r.master[i]);
  }
}

}  // namespace

GpuError adamw(const AdamwStep& step, const AdamwRange<float>& range, const AdamwExempt& exempt,
               const DeviceClip& clip, Stream stream) {
  if (range.count == 0) return 0;
  const Grid grid{blocks_for(static_cast<Index>(range.count), kBlockThreads)};
  return launch(grid, stream, adamw_kernel, adamw_constants<float>(step), range, exempt, clip);
}

}  // namespace stoker::kernels
