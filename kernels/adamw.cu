// AdamW on the GPU: one thread an element, 14 bytes read and 14 or 12 written each.
#include "kernels/adamw.hpp"
#include "kernels/adamw_element.hpp"
#include "kernels/global_norm.hpp"
#include "kernels/grid.hpp"

namespace stoker::kernels {
namespace {

__global__ void adamw_kernel(AdamwConstants<float> c, AdamwRange<float> r, DeviceClip clip) {
  if (clip.squares != nullptr)
    c.scale = static_cast<float>(clip_scale(square_root(*clip.squares), clip.clip));
  const auto count = static_cast<Index>(r.count);
  for (Index i = first_element(); i < count; i += all_threads()) {
    adamw_element(c, r.gradient[i], r.master[i], r.moment1[i], r.moment2[i]);
    if (r.parameter != nullptr) r.parameter[i] = to_bf16(r.master[i]);
  }
}

}  // namespace

GpuError adamw(const AdamwStep& step, const AdamwRange<float>& range, const DeviceClip& clip,
               Stream stream) {
  if (range.count == 0) return 0;
  const Grid grid{blocks_for(static_cast<Index>(range.count), kBlockThreads)};
  return launch(grid, stream, adamw_kernel, adamw_constants<float>(step), range, clip);
}

}  // namespace stoker::kernels
