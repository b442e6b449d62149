// Charts of the report as SVG: the usual value as a line, lowest to highest of all iterations as a
// band, incidents behind them. Each has its text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/publish/downsample.hpp"

namespace stoker::cli::postmortem {

struct Band {
  std::int64_t from_ms = 0, to_ms = 0;
  bool planned = false;
  std::string text;
};

struct ChartSpec {
  core::Metric metric;
  std::string_view title;
  bool share = false;  // shown in per cent
};

// Empty: the history has no value of this metric.
std::string chart(const ChartSpec& spec, const std::vector<core::Sample>& samples,
                  const std::vector<Band>& bands);

// Losses of two runs over the same clock (samples or iterations), on one pair of axes.
struct Point {
  double x = 0, y = 0;
};
std::string two_lines(std::string_view caption, const std::vector<Point>& ours,
                      const std::vector<Point>& others);

// "train 91.2 %": bars from the whole down to what was trained.
struct Share {
  std::string name;
  double seconds = 0;
};
std::string waterfall(double whole_s, const std::vector<Share>& lost, double trained_s);

}  // namespace stoker::cli::postmortem
