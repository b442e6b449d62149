#include "worker/train/torch/dropout_mask.hpp"

#include <ATen/Parallel.h>
#include <algorithm>

namespace stoker::train {
namespace {

// The same bits as below, in one launch.
at::Tensor draw_on_device(const Pass& pass, std::uint32_t layer, kernels::DropoutSite site,
                          std::int64_t first, const at::Tensor& mask) {
  const std::int64_t each = mask.numel() / pass.samples;
  const std::int64_t before = first % 4;  // the generator begins at multiples of four
  const at::Tensor drawn = at::empty({pass.samples, before + each}, mask.options());
  const kernels::DropoutKey key{pass.seed, 0, layer, site};
  const auto draw = [&](auto* out) {
    pass.device->dropout_masks(key, pass.dropout, static_cast<std::uint64_t>(first - before),
                               static_cast<std::size_t>(before + each),
                               {pass.device_ids, static_cast<std::size_t>(pass.samples)}, out);
  };
  if (mask.scalar_type() == at::kFloat)
    draw(drawn.data_ptr<float>());
  else
    draw(static_cast<kernels::Bf16*>(drawn.data_ptr()));
  return drawn.narrow(1, before, each).reshape(mask.sizes());
}

}  // namespace

at::Tensor dropout_mask(const Pass& pass, std::uint32_t layer, kernels::DropoutSite site,
                        at::IntArrayRef shape, const at::Tensor& like, std::int64_t first) {
  at::Tensor mask = at::empty(shape, like.options());
  if (pass.device != nullptr) return draw_on_device(pass, layer, site, first, mask);
  const std::int64_t each = mask.numel() / pass.samples;
  // Whole chunks of samples, so that every thread count draws the same bits.
  constexpr std::int64_t kChunk = 1 << 14;
  // The generator begins at multiples of four; what comes before is drawn and left out.
  const std::int64_t before = first % 4;
  const std::int64_t chunks = (each + kChunk - 1) / kChunk;
  const auto fill = [&]<class T>(T* out) {
    at::parallel_for(0, pass.samples * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<T> drawn(before != 0 ? static_cast<std::size_t>(kChunk + before) : 0);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t at = i % chunks * kChunk, count = std::min(kChunk, each - at);
        const auto sample = static_cast<std::size_t>(i / chunks);
        T* to = out + i / chunks * each + at;
        kernels::dropout_mask({pass.seed, (*pass.ids)[sample], layer, site}, pass.dropout,
                              static_cast<std::uint64_t>(first + at - before),
                              static_cast<std::size_t>(count + before),
                              before != 0 ? drawn.data() : to);
        if (before != 0) std::copy_n(drawn.data() + before, count, to);
      }
    });
  };
  if (mask.scalar_type() == at::kDouble)
    fill(mask.data_ptr<double>());
  else if (mask.scalar_type() == at::kFloat)
    fill(mask.data_ptr<float>());
  else
    fill(static_cast<kernels::Bf16*>(mask.data_ptr()));
  return mask;
}

at::Tensor hidden_mask(const Pass& pass, std::uint32_t layer, kernels::DropoutSite site,
                       const at::Tensor& like) {
  return dropout_mask(pass, layer, site, like.sizes(), like, pass.first_token * like.size(1));
}

}  // namespace stoker::train
