// m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  p = p (1 - lr wd) - lr/(1-b1^t) m /
// (sqrt(v/(1-b2^t)) + eps)
#include "kernels/adamw.hpp"

#include <cmath>

#include "kernels/clones.hpp"

namespace stoker::kernels {
namespace {

template <class T>
struct Constants {
  T scale, beta1, rest1, beta2, rest2, keep, rate, root, eps;
};

template <class T>
Constants<T> constants(const AdamwStep& s) {
  const auto t = static_cast<double>(s.step);
  const double correction1 = 1.0 - std::pow(s.beta1, t);
  const double correction2 = 1.0 - std::pow(s.beta2, t);
  const auto cast = [](double x) { return static_cast<T>(x); };
  return {cast(s.gradient_scale),
          cast(s.beta1),
          cast(1.0 - s.beta1),
          cast(s.beta2),
          cast(1.0 - s.beta2),
          cast(1.0 - s.learning_rate * s.weight_decay),
          cast(s.learning_rate / correction1),
          cast(1.0 / std::sqrt(correction2)),
          cast(s.eps)};
}

template <class T>
[[gnu::always_inline]] inline void sweep(const Constants<T>& c, const T* __restrict gradient,
                                         T* __restrict master, T* __restrict moment1,
                                         T* __restrict moment2, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const T g = gradient[i] * c.scale;
    const T m = c.beta1 * moment1[i] + c.rest1 * g;
    const T v = c.beta2 * moment2[i] + c.rest2 * (g * g);
    moment1[i] = m;
    moment2[i] = v;
    master[i] = master[i] * c.keep - c.rate * (m / (std::sqrt(v) * c.root + c.eps));
  }
}

STOKER_CLONES void sweep_f32(const Constants<float>& c, const AdamwRange<float>& r) {
  sweep(c, r.gradient, r.master, r.moment1, r.moment2, r.count);
}
STOKER_CLONES void sweep_f64(const Constants<double>& c, const AdamwRange<double>& r) {
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
  sweep_f32(constants<float>(step), range);
  round_parameters(range);
}

void adamw(const AdamwStep& step, const AdamwRange<double>& range) {
  sweep_f64(constants<double>(step), range);
  round_parameters(range);
}

}  // namespace stoker::kernels
