#include "recipe/schedule/draw.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>

#include "recipe/schedule/passes.hpp"

namespace stoker::recipe {
namespace {

// Stage -> "a", "b" … in the order of the stages of its rank; empty names with one chunk a rank.
std::vector<std::string> chunk_names(const PipelineSchedule& s) {
  std::vector<std::string> names(s.stages());
  if (s.stages() <= s.ranks.size()) return names;
  std::map<std::uint32_t, std::uint32_t> used;
  for (std::uint32_t stage = 0; stage < s.stages(); ++stage) {
    const std::uint32_t chunk = used[s.rank_of_stage[stage]]++;
    names[stage] =
        chunk < 26 ? std::string(1, static_cast<char>('a' + chunk)) : fmt::format(".{}", chunk);
  }
  return names;
}

}  // namespace

Result<std::string> draw_schedule(const PipelineSchedule& s) {
  const double chunks = chunks_per_rank(s);
  const OpTimes unit{chunks, chunks, chunks, 0};
  STOKER_TRY(run, simulate(s, unit));
  const auto names = chunk_names(s);
  const auto label = [&](const PipelineOp& op) {
    return fmt::format("{}{}{}", name_of(op.kind), op.micro_batch, names[op.stage]);
  };
  std::size_t width = 2;
  for (const auto& ops : s.ranks)
    for (const PipelineOp& op : ops)
      if (is_compute(op.kind)) width = std::max(width, label(op).size());
  const std::size_t number = fmt::format("{}", s.ranks.size() - 1).size();
  std::string picture;
  for (std::size_t r = 0; r < s.ranks.size(); ++r) {
    std::string row = fmt::format("rank {:<{}} |", r, number);
    const std::size_t margin = row.size();
    const auto reach = [&](double time) {
      const std::size_t to = margin + static_cast<std::size_t>(std::llround(time)) * (width + 1);
      while (row.size() < to) row += fmt::format(" {:<{}}", ".", width);
    };
    for (std::size_t i = 0; i < s.ranks[r].size(); ++i) {
      const PipelineOp& op = s.ranks[r][i];
      if (!is_compute(op.kind)) continue;
      reach(run.start[r][i]);
      const auto units = static_cast<std::size_t>(std::llround(duration_of(op.kind, unit, chunks)));
      const std::string text = label(op);
      row += " " + text;
      if (units > 1) row += std::string(units * (width + 1) - 1 - text.size(), '-');
      while (units == 1 && (row.size() - margin) % (width + 1) != 0) row += ' ';
    }
    while (!row.empty() && row.back() == ' ') row.pop_back();
    picture += row + "\n";
  }
  return picture;
}

std::string list_operations(const PipelineSchedule& s) {
  const SlotPlan slots = assign_slots(s);
  std::string text;
  for (std::size_t r = 0; r < s.ranks.size(); ++r) {
    text += fmt::format("rank {} ({} slots):", r, slots.count[r]);
    for (std::size_t i = 0; i < s.ranks[r].size(); ++i) {
      const PipelineOp& op = s.ranks[r][i];
      text += " " + op.text();
      if (op.kind == OpKind::Forward) text += fmt::format("@{}", slots.of[r][i]);
    }
    text += "\n";
  }
  return text;
}

std::string makespan_text(const Timeline& timeline) {
  return fmt::format("makespan {:.6g}, bubble {:.1f} %", timeline.makespan,
                     100 * timeline.bubble());
}

std::string peak_text(const Timeline& timeline) {
  std::string text = "peak activations";
  for (std::size_t r = 0; r < timeline.peak.size(); ++r)
    text += fmt::format(" {:.6g}", timeline.peak_share(r));
  return text;
}

}  // namespace stoker::recipe
