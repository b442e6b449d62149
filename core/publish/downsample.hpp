// Downsampling for charts: at most `most` samples of a stretch of points, each with the lowest and
// the highest of all points that it stands for, so that no spike is lost. Linear in the points:
// a million take a few milliseconds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/publish/history.hpp"

namespace stoker::core {

struct Sample {
  std::int64_t wall_ms = 0;     // of the newest point that has the number
  std::uint64_t iteration = 0;  // likewise
  float low = 0, mid = 0, high = 0;
};

// Points that lack the number are passed over. `most` ≥ 1.
std::vector<Sample> downsample(std::span<const HistoryPoint> points, Metric metric,
                               std::size_t most);

}  // namespace stoker::core
