// One iteration, and one fold after another.
#include "wire/step_losses.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace stoker::wire {
namespace {

// Beyond it sums of squares and of many iterations would end at infinity.
bool is_number(const std::optional<double>& value) {
  constexpr double kLargest = 1e30;
  return value && std::isfinite(*value) && std::abs(*value) < kLargest;
}

// As many digits as a rise needs; the rest would only fill beats and the journal.
double four_digits(double value) {
  char text[32];
  const auto written =
      std::to_chars(text, text + sizeof text, value, std::chars_format::scientific, 3);
  double rounded = value;
  std::from_chars(text, written.ptr, rounded);
  return rounded;
}

}  // namespace

void add(StepLosses& losses, const StepTold& step) {
  StepLosses one;
  one.skipped = step.skipped;
  if (is_number(step.loss)) {
    one.count = 1;
    one.mean = one.low = one.high = *step.loss;
    one.high_at = step.iteration;
  }
  one.not_finite = step.not_finite;
  if (step.loss && one.count == 0) one.not_finite = std::max<std::uint64_t>(1, step.not_finite);
  if (is_number(step.gradient_norm)) one.gradient_norm = *step.gradient_norm;
  if (is_number(step.scale)) one.scale = *step.scale;
  for (const double norm : step.groups)
    one.groups.push_back(is_number(norm) && norm > 0 ? four_digits(norm) : 0);
  merge(losses, one);
}

void merge(StepLosses& losses, const StepLosses& later) {
  if (later.count > 0) {
    const bool first = losses.count == 0;
    const auto before = static_cast<double>(losses.count);
    const auto more = static_cast<double>(later.count);
    losses.mean = (losses.mean * before + later.mean * more) / (before + more);
    losses.low = first ? later.low : std::min(losses.low, later.low);
    if (first || later.high > losses.high) {
      losses.high = later.high;
      losses.high_at = later.high_at;
    }
    losses.count += later.count;
  }
  losses.not_finite += later.not_finite;
  losses.skipped += later.skipped;
  losses.gradient_norm = std::max(losses.gradient_norm, later.gradient_norm);
  if (later.scale > 0) losses.scale = later.scale;
  if (later.groups.empty() || later.groups.size() > kMostLayerGroups) return;
  losses.groups.resize(later.groups.size());
  for (std::size_t i = 0; i < losses.groups.size(); ++i)
    losses.groups[i] = std::max(losses.groups[i], later.groups[i]);
}

std::string layer_group_name(std::size_t index, std::size_t groups) {
  if (index == 0) return "embedding";
  return index + 1 == groups ? "final norm" : "layer " + std::to_string(index - 1);
}

}  // namespace stoker::wire
