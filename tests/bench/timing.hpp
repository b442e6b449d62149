// What the programs of ./dev bench measure with.
#pragma once

#include <algorithm>
#include <vector>

#include "common/time.hpp"

namespace stoker::bench {

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Seconds.
template <class F>
double timed(F f) {
  const Instant began = monotonic_now();
  f();
  return to_seconds(monotonic_now() - began);
}

}  // namespace stoker::bench
