// Where both tell their consumed samples, those are the clock: batches may differ.
#include "cli/report/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "cli/report/chart.hpp"
#include "cli/report/html.hpp"
#include "cli/show/render_status.hpp"
#include "core/publish/goodput.hpp"

namespace stoker::cli::postmortem {
namespace {

std::uint64_t place_of(const LossAt& at, bool by_samples) {
  return by_samples ? at.samples : at.iteration;
}

// Between the two neighbours of `place`; `next` only moves on.
std::optional<double> loss_at(const std::vector<LossAt>& line, std::size_t& next,
                              std::uint64_t place, bool by_samples) {
  while (next < line.size() && place_of(line[next], by_samples) < place) ++next;
  if (next == line.size()) return std::nullopt;
  const auto here = place_of(line[next], by_samples);
  if (here == place) return line[next].loss;
  if (next == 0) return std::nullopt;
  const auto before = place_of(line[next - 1], by_samples);
  const double share = static_cast<double>(place - before) / static_cast<double>(here - before);
  return line[next - 1].loss + share * (line[next].loss - line[next - 1].loss);
}

std::string row(std::string_view name, const std::string& ours, const std::string& theirs) {
  return fmt::format(
      "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>\n", name, ours,
      theirs);
}

std::string step_text(const wire::StatusDocument& s) {
  return s.step_norm_s > 0 ? span_text(s.step_norm_s) : "–";
}
std::string goodput_text(const wire::StatusDocument& s) {
  return s.goodput ? percent(s.goodput->ettr) : "–";
}
std::string lost_text(const wire::StatusDocument& s) {
  if (!s.goodput) return "–";
  return core::cost_text(s.goodput->lost_gpu_hours, s.goodput->lost_node_hours);
}

std::string losses(const Source& run, const Source& other) {
  const SameLosses same = same_losses(run.losses, other.losses);
  if (same.pairs.empty())
    return "<p>The two runs have no place of the data in common at which both reported a "
           "loss.</p>\n";
  std::vector<Point> ours, theirs;
  double largest = 0, largest_at = 0;
  for (const LossPair& pair : same.pairs) {
    ours.push_back({pair.at, pair.ours});
    theirs.push_back({pair.at, pair.theirs});
    if (std::abs(pair.ours - pair.theirs) > std::abs(largest)) {
      largest = pair.ours - pair.theirs;
      largest_at = pair.at;
    }
  }
  const LossPair& last = same.pairs.back();
  const char* clock = same.by_samples ? "samples" : "iterations";
  return two_lines(
      fmt::format(
          "<b>Loss on the same {}</b> <span class=\"muted\">line: {}, dashed: {}; at {} {}: "
          "{} and {}; largest difference {:+.4g} at {}</span>",
          clock, escaped(run.status.run), escaped(other.status.run), amount(last.at), clock,
          amount(last.ours), amount(last.theirs), largest, amount(largest_at)),
      ours, theirs);
}

}  // namespace

SameLosses same_losses(const std::vector<LossAt>& ours, const std::vector<LossAt>& theirs,
                       std::size_t most) {
  const auto tells = [](const std::vector<LossAt>& line) {
    return std::all_of(line.begin(), line.end(), [](const LossAt& at) { return at.samples > 0; });
  };
  SameLosses same;
  same.by_samples = tells(ours) && tells(theirs);
  std::size_t next = 0;
  for (const LossAt& at : ours) {
    const auto place = place_of(at, same.by_samples);
    if (const auto loss = loss_at(theirs, next, place, same.by_samples))
      same.pairs.push_back({static_cast<double>(place), at.loss, *loss});
  }
  const std::size_t step = (same.pairs.size() + most - 1) / std::max<std::size_t>(1, most);
  if (step > 1) {
    std::vector<LossPair> fewer;
    for (std::size_t i = 0; i < same.pairs.size(); i += step) fewer.push_back(same.pairs[i]);
    fewer.back() = same.pairs.back();
    same.pairs = std::move(fewer);
  }
  return same;
}

std::string comparison(const Source& run, const Source& other) {
  const wire::StatusDocument &a = run.status, &b = other.status;
  const auto incidents = [](const Source& source) {
    const auto& all = source.history.incidents();
    return std::to_string(
        std::count_if(all.begin(), all.end(), [](const auto& i) { return !i.planned; }));
  };
  const std::string table =
      fmt::format(
          "<div class=\"scroll\"><table><tr><th></th><th class=\"number\">{}</th><th "
          "class=\"number\">{}</th></tr>",
          escaped(a.run), escaped(b.run)) +
      row("state", escaped(a.state), escaped(b.state)) +
      row("iterations", with_commas(a.iteration), with_commas(b.iteration)) +
      row("usual iteration", step_text(a), step_text(b)) +
      row("goodput", goodput_text(a), goodput_text(b)) + row("lost", lost_text(a), lost_text(b)) +
      row("incidents", incidents(run), incidents(other)) +
      row("restarts", std::to_string(a.restarts), std::to_string(b.restarts)) + "</table></div>\n";
  return section("Against " + escaped(b.run), table + losses(run, other));
}

}  // namespace stoker::cli::postmortem
