// One element of AdamW, for the loops of the CPU and the threads of the GPU alike: the same IEEE
// operations in the same order, without contraction, so both give the same bits.
#pragma once

#include <cmath>

#include "kernels/adamw.hpp"
#include "kernels/both.hpp"

namespace stoker::kernels {

template <class T>
struct AdamwConstants {
  T scale, beta1, rest1, beta2, rest2, keep, rate, root, eps;
};

template <class T>
AdamwConstants<T> adamw_constants(const AdamwStep& s) {
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

STOKER_BOTH inline float square_root(float x) {
  return std::sqrt(x);
}
STOKER_BOTH inline double square_root(double x) {
  return std::sqrt(x);
}

// m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  p = p (1 - lr wd) - lr/(1-b1^t) m /
// (sqrt(v/(1-b2^t)) + eps)
template <class T>
[[gnu::always_inline]] STOKER_BOTH inline void adamw_element(const AdamwConstants<T>& c, T gradient,
                                                             T& master, T& moment1, T& moment2) {
  const T g = gradient * c.scale;
  const T m = c.beta1 * moment1 + c.rest1 * g;
  const T v = c.beta2 * moment2 + c.rest2 * (g * g);
  moment1 = m;
  moment2 = v;
  master = master * c.keep - c.rate * (m / (square_root(v) * c.root + c.eps));
}

}  // namespace stoker::kernels
