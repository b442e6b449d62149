// The heat map of a run's nodes. A node is one letter: what the site knows of it, else how long ago
// its oldest rank made progress, in tenths of the hang detector's limit. The agents report the
// eight ranks with the oldest progress and the slowest one; all others are younger than those.
#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "cli/show/render_status.hpp"
#include "cli/top/pages.hpp"
#include "cli/top/run_order.hpp"
#include "common/hostlist.hpp"
#include "core/nodes/node_view.hpp"

namespace stoker::cli::top {
namespace {

constexpr double kSlower = 1.1;  // than the median: worth a mark
constexpr int kGroup = 10;       // nodes between two blanks
constexpr int kLongestLabel = 16;

struct Mark {
  char letter = '?';
  Shade shade = Shade::Dim;
};

struct Known {
  std::map<std::string, const wire::PublishedNode*, std::less<>> nodes;
  std::map<std::string, double, std::less<>> age_s;  // of the oldest rank; -1 = never reported
  std::string slowest;
  bool beats = false;
};

Known known_of(const View& view) {
  Known known;
  for (const wire::PublishedNode& node : view.nodes) known.nodes[node.node] = &node;
  const auto& beat = view.detail.beat;
  known.beats = beat.has_value();
  if (!beat) return known;
  for (const wire::RankAge& rank : beat->oldest) {
    const double age =
        rank.age_ms < 0 ? -1
                        : static_cast<double>(rank.age_ms) / 1e3 + to_seconds(view.detail.beat_age);
    const auto [at, fresh] = known.age_s.try_emplace(rank.node.text, age);
    if (!fresh && at->second >= 0) at->second = age < 0 ? age : std::max(at->second, age);
  }
  if (beat->slowest && beat->slowest->ms > kSlower * beat->slowest->median_ms)
    known.slowest = beat->slowest->node.text;
  return known;
}

Mark mark_of(const std::string& node, const Known& known, double limit_s) {
  const auto found = known.nodes.find(node);
  const std::string state = found == known.nodes.end() ? "" : found->second->state;
  if (state == "excluded") return {'X', Shade::Bad};
  if (state == "down") return {'D', Shade::Bad};
  if (state == "suspect") return {'S', Shade::Warn};
  if (!known.beats) return {};
  if (node == known.slowest) return {'*', Shade::Warn};
  const auto aged = known.age_s.find(node);
  if (aged == known.age_s.end()) return {'.', Shade::Good};
  if (aged->second < 0) return {};
  if (!(limit_s > 0)) return {'.', Shade::Good};
  const int tenths = static_cast<int>(std::min(aged->second / limit_s * 10, 9.0));
  if (tenths == 0) return {'.', Shade::Good};
  return {static_cast<char>('0' + tenths), tenths >= 5 ? Shade::Bad : Shade::Warn};
}

std::string ms(double milliseconds) {
  return brief(milliseconds / 1e3);
}

void add_summary(std::vector<Line>& lines, const View& view, const wire::StatusDocument& run,
                 int columns) {
  const auto& beat = view.detail.beat;
  std::string text =
      fmt::format("{} {}", with_commas(run.nodes.size()), run.nodes.size() == 1 ? "node" : "nodes");
  if (beat)
    text += fmt::format(", {} ranks ({} report), phase {} for {}; reported {} ago",
                        with_commas(beat->ranks), with_commas(beat->reporting),
                        name_of(beat->phase), brief(static_cast<double>(beat->phase_age_ms) / 1e3),
                        brief(to_seconds(view.detail.beat_age)));
  add_wrapped(lines, text, 0, columns);
  if (!beat) return;
  if (beat->iteration_ms.count > 0)
    add_wrapped(lines,
                fmt::format("step: half of the iterations within {}, 99 % within {}, longest {}{}",
                            ms(beat->iteration_ms.p50), ms(beat->iteration_ms.p99),
                            ms(beat->iteration_ms.max),
                            run.step_norm_s > 0 ? "; usually " + brief(run.step_norm_s) : ""),
                0, columns);
  if (beat->slowest)
    add_wrapped(lines,
                fmt::format("slowest: rank {} on {} computes {} an iteration, the median is {}",
                            beat->slowest->rank.value, beat->slowest->node.text,
                            ms(beat->slowest->ms), ms(beat->slowest->median_ms)),
                0, columns, Shade::Info);
}

void add_map(std::vector<Line>& lines, const std::vector<std::string>& nodes, const Known& known,
             double limit_s, int columns) {
  int label = 1;
  for (const std::string& node : nodes) label = std::max(label, width_of(node));
  label = std::min({label, kLongestLabel, std::max(columns / 2 - 1, 0)});
  const int room = std::max(columns - label - 1, 1);
  const int groups = (room + 1) / (kGroup + 1);
  const std::size_t a_row = static_cast<std::size_t>(groups > 0 ? groups * kGroup : room);
  for (std::size_t begin = 0; begin < nodes.size(); begin += a_row) {
    Line line = {{fit(nodes[begin], label) + " ", Shade::Dim}};
    for (std::size_t i = begin; i < std::min(begin + a_row, nodes.size()); ++i) {
      const Mark mark = mark_of(nodes[i], known, limit_s);
      if (groups > 0 && i > begin && (i - begin) % kGroup == 0) line.back().text += ' ';
      if (i == begin || line.back().shade != mark.shade) line.push_back({"", mark.shade});
      line.back().text += mark.letter;
    }
    lines.push_back(std::move(line));
  }
}

void add_ranks(std::vector<Line>& lines, const View& view, const std::string& filter) {
  if (!view.detail.beat || view.detail.beat->oldest.empty()) return;
  lines.emplace_back();
  lines.push_back({{fmt::format("{:>7}  {:<16} {:>9}  {:<10} {:>10}", "RANK", "NODE", "PROGRESS",
                                "PHASE", "ITERATION"),
                    Shade::Bold}});
  for (const wire::RankAge& rank : view.detail.beat->oldest) {
    if (!contains(rank.node.text, filter)) continue;
    const double age = static_cast<double>(rank.age_ms) / 1e3 + to_seconds(view.detail.beat_age);
    lines.push_back(
        {{fmt::format("{:>7}  ", rank.rank.value) + fit(rank.node.text, 16) +
          fmt::format(" {:>9}  {:<10} {:>10}", rank.age_ms < 0 ? "never" : brief(age) + " ago",
                      name_of(rank.phase), with_commas(rank.iteration.value))}});
  }
}

void add_troubled(std::vector<Line>& lines, const std::vector<std::string>& nodes,
                  const Known& known, int columns) {
  bool any = false;
  for (const std::string& name : nodes) {
    const auto found = known.nodes.find(name);
    if (found == known.nodes.end() || found->second->state == "ok") continue;
    const wire::PublishedNode& node = *found->second;
    if (!any) lines.emplace_back();
    any = true;
    add_wrapped(lines, node.node + "  " + core::state_text(node), 0, columns,
                node.state == "suspect" ? Shade::Warn : Shade::Bad);
    for (const std::string& line : node.evidence) add_wrapped(lines, line, 4, columns);
  }
}

}  // namespace

std::vector<Line> node_lines(const View& view, const Selection& selection, int columns) {
  std::vector<Line> lines;
  const auto* run = chosen_run(view, selection);
  if (run == nullptr) return lines;
  for (const std::string& trouble : view.detail.trouble)
    add_wrapped(lines, trouble, 0, columns, Shade::Warn);
  const Known known = known_of(view);
  std::vector<std::string> nodes;
  for (const std::string& node : run->nodes) {
    const auto found = known.nodes.find(node);
    if (contains(node, selection.page_filter) ||
        (found != known.nodes.end() && contains(found->second->state, selection.page_filter)))
      nodes.push_back(node);
  }
  add_summary(lines, view, *run, columns);
  lines.emplace_back();
  add_map(lines, nodes, known, run->deadline_s, columns);
  if (nodes.empty()) add_wrapped(lines, "no nodes to show", 0, columns, Shade::Dim);
  lines.emplace_back();
  add_wrapped(lines,
              ". progress now   1-9 tenths of the hang limit" +
                  (run->deadline_s > 0 ? " (" + brief(run->deadline_s) + ")" : std::string()) +
                  " since the last   * slowest   S suspect   X excluded   D down   ? unknown",
              0, columns, Shade::Dim);
  add_ranks(lines, view, selection.page_filter);
  add_troubled(lines, nodes, known, columns);
  if (run->spares && run->spares->known > 0)
    add_wrapped(lines, "nodes: " + spares_line(*run->spares), 0, columns);
  return lines;
}

}  // namespace stoker::cli::top
