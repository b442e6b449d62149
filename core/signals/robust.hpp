// Robust statistics of a few numbers: a level and its noise that outliers do not move. Median, and
// median absolute deviation times 1.4826, which is the standard deviation where the noise is
// Gaussian (Rousseeuw and Croux, JASA 88, 1993).
#pragma once

#include <algorithm>
#include <vector>

#include "common/json.hpp"

namespace stoker::core::signals {

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

inline double magnitude(double value) {
  return value < 0 ? -value : value;
}

inline double noise_of(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> away;
  for (const double value : values) away.push_back(magnitude(value - middle));
  return 1.4826 * median(std::move(away));
}

// The same around what went just before: a slow trend is no noise. From the differences of
// neighbours (von Neumann 1941), robustly: their deviation is sqrt(2) times that of the values.
inline double noise_between_neighbours(const std::vector<double>& values) {
  constexpr double kRootOfTwo = 1.4142135623730951;
  std::vector<double> steps;
  for (std::size_t i = 1; i < values.size(); ++i)
    steps.push_back(magnitude(values[i] - values[i - 1]));
  return 1.4826 * median(std::move(steps)) / kRootOfTwo;
}

// Keeps the newest `most` values.
inline void keep(std::vector<double>& values, double value, std::size_t most) {
  values.push_back(value);
  if (values.size() > most) values.erase(values.begin());
}

// A whole history in at most kMost means of equally many values: when it is full, neighbours become
// one.
struct Curve {
  static constexpr std::size_t kMost = 60;
  std::vector<double> means;
  std::uint64_t each = 1, held = 0;
  double sum = 0;  // of the `held` values that wait for their mean
  STOKER_FIELDS(Curve, means, each, held, sum)

  void add(double value) {
    sum += value;
    if (++held < each) return;
    means.push_back(sum / static_cast<double>(each));
    sum = 0;
    held = 0;
    if (means.size() < kMost) return;
    for (std::size_t i = 0; i < kMost / 2; ++i) means[i] = (means[2 * i] + means[2 * i + 1]) / 2;
    means.resize(kMost / 2);
    each *= 2;
  }
};

}  // namespace stoker::core::signals
