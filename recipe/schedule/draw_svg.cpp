// The picture of draw.cpp as SVG: a row a rank, a box an operation, the width its time.
#include <algorithm>
#include <fmt/format.h>

#include "recipe/schedule/draw.hpp"

namespace stoker::recipe {
namespace {

constexpr double kUnit = 24, kRow = 26, kLeft = 60;  // pixels

const char* colour(OpKind kind) {
  switch (kind) {
    case OpKind::Forward: return "#9ec5fe";
    case OpKind::Backward: return "#a3cfbb";
    case OpKind::InputGradient: return "#ffe69c";
    case OpKind::WeightGradient: return "#c5b3e6";
    case OpKind::SendForward:
    case OpKind::RecvForward:
    case OpKind::SendBackward:
    case OpKind::RecvBackward:
    case OpKind::ReduceGradients:
    case OpKind::ReduceTied: return "#dee2e6";
  }
  return "#dee2e6";
}

}  // namespace

Result<std::string> draw_schedule_svg(const PipelineSchedule& s, const OpTimes& times) {
  STOKER_TRY(run, simulate(s, times));
  const double chunks = chunks_per_rank(s);
  double shortest = run.makespan;
  for (const auto kind : {OpKind::Forward, OpKind::InputGradient, OpKind::WeightGradient})
    shortest = std::min(shortest, duration_of(kind, times, chunks));
  const double scale = shortest > 0 ? kUnit / shortest : kUnit;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"9\">\n",
      kLeft + run.makespan * scale + 4, kRow * static_cast<double>(s.ranks.size()) + 4);
  for (std::size_t r = 0; r < s.ranks.size(); ++r) {
    const double y = kRow * static_cast<double>(r) + 2;
    svg += fmt::format("<text x=\"4\" y=\"{:.1f}\">rank {}</text>\n", y + 15, r);
    for (std::size_t i = 0; i < s.ranks[r].size(); ++i) {
      const PipelineOp& op = s.ranks[r][i];
      if (!is_compute(op.kind)) continue;
      const double x = kLeft + run.start[r][i] * scale;
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
          "stroke=\"#495057\"><title>{} at {:.6g}</title></rect>"
          "<text x=\"{:.1f}\" y=\"{:.1f}\">{}{}</text>\n",
          x, y, duration_of(op.kind, times, chunks) * scale, kRow - 6, colour(op.kind), op.text(),
          run.start[r][i], x + 3, y + 14, name_of(op.kind), op.micro_batch);
    }
  }
  return svg + "</svg>\n";
}

}  // namespace stoker::recipe
