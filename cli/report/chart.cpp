// One coordinate system a chart, 560 x 190 units; the browser scales it.
#include "cli/report/chart.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "cli/report/html.hpp"

namespace stoker::cli::postmortem {
namespace {

constexpr double kWidth = 560, kHeight = 190, kLeft = 58, kBottom = 22, kTop = 8;

struct Axis {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void take(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] bool empty() const { return !(low <= high); }
  [[nodiscard]] double share(double value) const {
    return high > low ? std::clamp((value - low) / (high - low), 0.0, 1.0) : 0.5;
  }
};

double x_of(const Axis& axis, double value) {
  return kLeft + axis.share(value) * (kWidth - kLeft - 4);
}
double y_of(const Axis& axis, double value) {
  return kHeight - kBottom - axis.share(value) * (kHeight - kBottom - kTop);
}

std::string value_text(const ChartSpec& spec, double value) {
  if (spec.share) return percent(value);
  const std::string unit = core::unit_of(spec.metric);
  return amount(value) + (unit.empty() ? "" : " " + unit);
}

std::string grid(const Axis& y, const std::string& low, const std::string& high,
                 const std::string& left, const std::string& right) {
  std::string text;
  for (const auto& [value, label] : {std::pair(y.low, low), std::pair(y.high, high)})
    text += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>",
        kLeft, kWidth, y_of(y, value), kLeft - 5, y_of(y, value) + 4, label);
  return text + fmt::format(
                    "<text x=\"{}\" y=\"{}\">{}</text><text x=\"{}\" y=\"{}\" "
                    "text-anchor=\"end\">{}</text>",
                    kLeft, kHeight - 6, left, kWidth, kHeight - 6, right);
}

std::string day_and_minute(std::int64_t ms) {
  return minute(WallTime(std::chrono::milliseconds(ms))).substr(5, 11);
}

std::string begin(const std::string& label) {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">", kWidth, kHeight,
                     label);
}

std::string line_of(std::string_view name, const Axis& x, const Axis& y,
                    const std::vector<Point>& points) {
  std::string path;
  for (const Point& p : points)
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "M" : " ", x_of(x, p.x), y_of(y, p.y));
  return fmt::format("<path class=\"{}\" d=\"{}\"/>", name, path);
}

}  // namespace

std::string chart(const ChartSpec& spec, const std::vector<core::Sample>& samples,
                  const std::vector<Band>& bands) {
  Axis x, y;
  for (const core::Sample& s : samples) {
    x.take(static_cast<double>(s.wall_ms));
    y.take(s.low);
    y.take(s.high);
  }
  if (y.empty()) return "";
  const auto& last = samples.back();
  const std::string caption =
      fmt::format("{} at iteration {}; lowest {}, highest {}", value_text(spec, last.mid),
                  amount(static_cast<double>(last.iteration)), value_text(spec, y.low),
                  value_text(spec, y.high));
  std::string text = fmt::format(
      "<figure><figcaption><b>{}</b> <span class=\"muted\">{}</span>"
      "</figcaption>{}",
      spec.title, caption, begin(fmt::format("{}: {}", spec.title, caption)));
  for (const Band& band : bands) {
    const double from = x_of(x, static_cast<double>(band.from_ms));
    const double to = std::max(from + 2, x_of(x, static_cast<double>(band.to_ms)));
    if (static_cast<double>(band.to_ms) < x.low || static_cast<double>(band.from_ms) > x.high)
      continue;
    text += fmt::format(
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\">"
        "<title>{}</title></rect>",
        band.planned ? "planned" : "band", from, kTop, to - from, kHeight - kBottom - kTop,
        escaped(band.text));
  }
  text += grid(y, value_text(spec, y.low), value_text(spec, y.high),
               day_and_minute(samples.front().wall_ms), day_and_minute(last.wall_ms));
  std::string upper, lower;
  std::vector<Point> mid;
  for (const core::Sample& s : samples) {
    const auto at = static_cast<double>(s.wall_ms);
    upper +=
        fmt::format("{}{:.1f},{:.1f}", upper.empty() ? "M" : " ", x_of(x, at), y_of(y, s.high));
    lower = fmt::format(" {:.1f},{:.1f}", x_of(x, at), y_of(y, s.low)) + lower;
    mid.push_back({at, s.mid});
  }
  return text + fmt::format("<path class=\"spread\" d=\"{}{}Z\"/>", upper, lower) +
         line_of("mid", x, y, mid) + "</svg></figure>\n";
}

std::string two_lines(std::string_view caption, const std::vector<Point>& ours,
                      const std::vector<Point>& others) {
  Axis x, y;
  for (const auto* points : {&ours, &others})
    for (const Point& p : *points) {
      x.take(p.x);
      y.take(p.y);
    }
  if (y.empty() || x.empty()) return "";
  return fmt::format("<figure><figcaption>{}</figcaption>{}", caption,
                     begin(std::string(caption))) +
         grid(y, amount(y.low), amount(y.high), amount(x.low), amount(x.high)) +
         line_of("mid", x, y, ours) + line_of("other", x, y, others) + "</svg></figure>\n";
}

std::string waterfall(double whole_s, const std::vector<Share>& lost, double trained_s) {
  if (!(whole_s > 0)) return "";
  constexpr double kRow = 24, kName = 150;
  const double scale = (kWidth - kName - 190) / whole_s;
  double y = 0, left = whole_s;
  std::string rows, label;
  const auto row = [&](std::string_view name, double from, double seconds, std::string_view look) {
    const std::string value = fmt::format("{}, {}", percent(seconds / whole_s), span_text(seconds));
    rows += fmt::format(
        "<text x=\"0\" y=\"{:.0f}\">{}</text><rect class=\"bar {}\" x=\"{:.1f}\" y=\"{:.0f}\" "
        "width=\"{:.1f}\" height=\"16\"/><text x=\"{:.1f}\" y=\"{:.0f}\">{}</text>",
        y + 14, escaped(name), look, kName + from * scale, y + 2, std::max(1.0, seconds * scale),
        kName + (from + seconds) * scale + 6, y + 14, value);
    label += fmt::format("{}{} {}", label.empty() ? "" : "; ", escaped(name), value);
    y += kRow;
  };
  row("all time", 0, whole_s, "");
  for (const Share& share : lost) {
    left -= share.seconds;
    row(share.name, std::max(0.0, left), share.seconds, "bad");
  }
  row("trained", 0, trained_s, "good");
  return fmt::format(
      "<svg class=\"waterfall\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{}</svg>\n",
      kWidth, y, label, rows);
}

}  // namespace stoker::cli::postmortem
