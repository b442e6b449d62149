// Buckets of equally many points.
#include "core/publish/downsample.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace stoker::core {
namespace {

std::optional<Sample> one_sample(std::span<const HistoryPoint> bucket, std::size_t metric) {
  Sample sample;
  double sum = 0;
  std::size_t count = 0;
  for (const HistoryPoint& point : bucket) {
    const Spread& value = point.values[metric];
    if (!std::isfinite(value.mid)) continue;
    sample.low = count == 0 ? value.low : std::min(sample.low, value.low);
    sample.high = count == 0 ? value.high : std::max(sample.high, value.high);
    sample.wall_ms = point.wall_ms;
    sample.iteration = point.iteration;
    sum += static_cast<double>(value.mid);
    ++count;
  }
  if (count == 0) return std::nullopt;
  sample.mid = static_cast<float>(sum / static_cast<double>(count));
  return sample;
}

}  // namespace

std::vector<Sample> downsample(std::span<const HistoryPoint> points, Metric metric,
                               std::size_t most) {
  std::vector<Sample> samples;
  const std::size_t buckets = std::min(std::max<std::size_t>(most, 1), points.size());
  samples.reserve(buckets);
  for (std::size_t i = 0; i < buckets; ++i) {
    const std::size_t from = points.size() * i / buckets, to = points.size() * (i + 1) / buckets;
    if (const auto sample =
            one_sample(points.subspan(from, to - from), static_cast<std::size_t>(metric)))
      samples.push_back(*sample);
  }
  return samples;
}

}  // namespace stoker::core
