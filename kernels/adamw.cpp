#include "kernels/adamw.hpp"

#include "kernels/adamw_element.hpp"
#include "kernels/clones.hpp"

namespace stoker::kernels {
namespace {

template <class T>
[[gnu::always_inline]] inline void sweep(const AdamwConstants<T>& c, const T* __restrict gradient,
                                         T* __restrict master, T* __restrict moment1,
                                         T* __restrict moment2, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    adamw_element(c, gradient[i], master[i], moment1[i], moment2[i]);
}

STOKER_CLONES void sweep_f32(const AdamwConstants<float>& c, const AdamwRange<float>& r) {
  sweep(c, r.gradient, r.master, r.moment1, r.moment2, r.count);
}
STOKER_CLONES void sweep_f64(const AdamwConstants<double>& c, const AdamwRange<double>& r) {
  sweep(c, r.gradient, r.master, r.moment1, r.moment2, r.count);
}

template <class T>
void round_parameters(const AdamwRange<T>& range) {
  if (range.parameter == nullptr) return;
  for (std::size_t i = 0; i < range.count; ++i)
    range.parameter[i] = to_bf16(static_cast<float>(range.master[i]));
}

}  // namespace

void adamw(const AdamwStep& step, const AdamwRange<float>& range) {
  sweep_f32(adamw_constants<float>(step), range);
  round_parameters(range);
}

void adamw(const AdamwStep& step, const AdamwRange<double>& range) {
  sweep_f64(adamw_constants<double>(step), range);
  round_parameters(range);
}

}  // namespace stoker::kernels
