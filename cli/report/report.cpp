// Outcome first, then what it cost, then the details; the oldest details go when the file would be
// too large.
#include "cli/report/report.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fmt/format.h>

#include "cli/report/chart.hpp"
#include "cli/report/comparison.hpp"
#include "cli/report/html.hpp"
#include "cli/report/style.hpp"
#include "cli/show/incident_text.hpp"
#include "cli/show/render_status.hpp"
#include "core/nodes/node_view.hpp"
#include "core/publish/downsample.hpp"
#include "core/publish/goodput.hpp"

namespace stoker::cli::postmortem {
namespace {

constexpr std::size_t kChartPoints = 400;
constexpr ChartSpec kCharts[] = {{core::Metric::Loss, "Loss"},
                                 {core::Metric::GradientNorm, "Gradient norm"},
                                 {core::Metric::LearningRate, "Learning rate"},
                                 {core::Metric::StepTime, "Step time"},
                                 {core::Metric::SamplesPerSecond, "Throughput"},
                                 {core::Metric::Tflops, "TFLOPs of a GPU"},
                                 {core::Metric::Goodput, "Goodput so far", true}};

std::int64_t ms_of(WallTime wall) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(wall.time_since_epoch()).count();
}

bool is_over(const std::string& state) {
  return state == "finished" || state == "stopped" || state == "held" || state == "idle";
}

// Is it all right, and does somebody have to act?
std::string verdict(const wire::StatusDocument& s) {
  const auto critical = std::count_if(s.alerts.begin(), s.alerts.end(), [](const auto& alert) {
    return alert.severity == "critical" && !alert.acknowledged;
  });
  if (s.state == "held" || critical > 0)
    return "<p class=\"verdict bad\">✖ A person has to act: " + escaped(s.reason) + "</p>\n";
  if (s.state == "finished")
    return "<p class=\"verdict good\">✔ Finished: " + escaped(s.reason) + "</p>\n";
  if (s.state == "stopped")
    return "<p class=\"verdict\">■ Stopped: " + escaped(s.reason) + "</p>\n";
  if (s.state == "training")
    return "<p class=\"verdict good\">✔ It trains: " + escaped(s.reason) + "</p>\n";
  return fmt::format("<p class=\"verdict mild\">! {}: {}</p>\n", escaped(s.state),
                     escaped(s.reason));
}

std::string figure(std::string_view name, const std::string& value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", name, value);
}

// "1 node", "2 nodes"
std::string counted(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", with_commas(count), what, count == 1 ? "" : "s");
}

std::string figures(const Source& run) {
  const wire::StatusDocument& s = run.status;
  std::string text = figure(
      "iterations", with_commas(s.iteration) + (s.total > 0 ? " of " + with_commas(s.total) : ""));
  if (s.consumed_samples > 0) text += figure("samples", with_commas(s.consumed_samples));
  if (s.loss) text += figure("loss", amount(*s.loss));
  if (s.goodput) {
    text += figure("goodput", fmt::format("{} of {}", percent(s.goodput->ettr),
                                          span_text(s.goodput->whole_s)));
    text += figure("lost", core::cost_text(s.goodput->lost_gpu_hours, s.goodput->lost_node_hours));
    if (s.goodput->mfu) text += figure("MFU", percent(*s.goodput->mfu));
    if (s.goodput->energy)
      text += figure("energy", fmt::format("{:.1f} kWh", s.goodput->energy->kwh));
  }
  text += figure("restarts", std::to_string(s.restarts));
  if (s.checkpoint) text += figure("newest checkpoint", with_commas(s.checkpoint->iteration));
  if (s.eta_s && !is_over(s.state)) text += figure("time left", span_text(*s.eta_s));
  return "<dl class=\"figures\">" + text + "</dl>\n";
}

std::string sentence_of_to_do(const wire::StatusDocument& s) {
  std::string text = to_do_line(s) + ".";
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string must_do(const wire::StatusDocument& s) {
  std::string rows;
  for (const wire::StatusAlert& alert : s.alerts)
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td><code>{}</code></td></tr>\n",
                        escaped(alert.severity), escaped(alert.summary), escaped(alert.command));
  if (rows.empty()) return "<p>" + escaped(sentence_of_to_do(s)) + "</p>\n";
  return "<div class=\"scroll\"><table class=\"todo\"><tr><th>severity</th><th>what</th><th>what "
         "to "
         "run</th></tr>" +
         rows + "</table></div>\n";
}

std::string incident_text(const core::HistoryIncident& incident) {
  return fmt::format("{}{}: {}", minute(incident.from),
                     incident.to ? " to " + minute(*incident.to).substr(11) : ", goes on",
                     incident.title);
}

std::string charts(const Source& run, WallTime now) {
  std::vector<Band> bands;
  for (const auto& incident : run.history.incidents())
    bands.push_back({ms_of(incident.from), ms_of(incident.to.value_or(now)), incident.planned,
                     incident_text(incident)});
  std::string text;
  for (const ChartSpec& spec : kCharts)
    text += chart(spec, core::downsample(run.history.points(), spec.metric, kChartPoints), bands);
  if (text.empty()) return "<p>No iteration was reported.</p>\n";
  return "<div class=\"charts\">" + text +
         "</div>\n<p class=\"muted\">Red: an incident. Grey: a planned stop. The line is the usual "
         "value, the band reaches from the lowest to the highest iteration.</p>\n";
}

std::string goodput(const wire::StatusDocument& s) {
  if (!s.goodput) return "";
  std::vector<Share> lost;
  for (const auto& [cause, seconds] : s.goodput->spent_s)
    if (cause != "train" && cause != "held" && seconds > 0) lost.push_back({cause, seconds});
  std::sort(lost.begin(), lost.end(),
            [](const Share& a, const Share& b) { return a.seconds > b.seconds; });
  const auto trained = s.goodput->spent_s.find("train");
  std::string rows;
  for (const wire::StatusCost& cost : s.goodput->causes)
    rows += fmt::format(
        "<tr><td>{}</td><td class=\"number\">{}</td><td>{}</td><td "
        "class=\"number\">{}</td></tr>\n",
        escaped(cause_words(cost.cause)), cost.times == 0 ? "" : std::to_string(cost.times),
        span_text(cost.s), core::cost_text(cost.gpu_hours, cost.node_hours));
  if (!rows.empty())
    rows =
        "<div class=\"scroll\"><table><tr><th>cause</th><th class=\"number\">times</th>"
        "<th>time</th><th class=\"number\">cost, with what was repeated</th></tr>" +
        rows + "</table></div>\n";
  return waterfall(s.goodput->whole_s, lost,
                   trained == s.goodput->spent_s.end() ? 0 : trained->second) +
         rows;
}

// What status.json counted for it: the one that began within two seconds.
const wire::StatusIncident* cost_of(const wire::StatusDocument& s,
                                    const core::HistoryIncident& incident) {
  if (!s.goodput) return nullptr;
  for (const auto& cost : s.goodput->incidents)
    if (const auto at = parse_rfc3339(cost.time);
        at && std::abs(ms_of(*at) - ms_of(incident.from)) <= 2000)
      return &cost;
  return nullptr;
}

std::string incident_row(const wire::StatusDocument& s, const core::HistoryIncident& incident,
                         bool details) {
  std::string cost;
  if (const auto* known = cost_of(s, incident))
    cost = fmt::format("; {}, {} repeated", core::cost_text(known->gpu_hours, known->node_hours),
                       counted(known->repeated, "iteration"));
  else if (incident.repeated > 0)
    cost = fmt::format("; {} repeated", counted(incident.repeated, "iteration"));
  const std::string head = fmt::format(
      "<b>{}</b> <span class=\"muted\">{}, at iteration {}{}{}</span>", escaped(incident.title),
      minute(incident.from), with_commas(incident.iteration),
      incident.to
          ? fmt::format(
                ", {} until {}",
                span_text(static_cast<double>(ms_of(*incident.to) - ms_of(incident.from)) / 1e3),
                escaped(incident.ended_in))
          : ", goes on",
      cost);
  if (!details || incident.lines.empty()) return "<p>" + head + "</p>\n";
  std::string lines;
  for (const auto& line : incident.lines)
    lines += fmt::format("<li><span class=\"muted\">{}</span> {}</li>",
                         format_rfc3339(line.wall).substr(11, 8), escaped(line.text));
  return "<details><summary>" + head + "</summary><ol>" + lines + "</ol></details>\n";
}

// Newest first; `most` of them with their sentences.
std::string incidents(const Source& run, std::size_t most) {
  const auto& all = run.history.incidents();
  if (all.empty()) return "<p>None.</p>\n";
  const auto planned =
      std::count_if(all.begin(), all.end(), [](const auto& i) { return i.planned; });
  std::string text =
      fmt::format("<p class=\"muted\">{} and {}, the newest first.</p>\n",
                  counted(all.size() - static_cast<std::size_t>(planned), "incident"),
                  counted(static_cast<std::size_t>(planned), "planned stop"));
  std::size_t number = 0;
  for (auto incident = all.rbegin(); incident != all.rend(); ++incident)
    text += incident_row(run.status, *incident, number++ < most);
  return text;
}

std::string nodes(const Source& run) {
  std::string rows;
  for (const wire::PublishedNode& node : run.nodes) {
    std::string evidence;
    for (const std::string& text : node.evidence) evidence += escaped(text) + "<br>";
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", escaped(node.node),
                        escaped(core::state_text(node)), evidence);
  }
  const core::HistoryRanks& ranks = run.history.ranks();
  std::string text;
  if (ranks.world_size > 0)
    text = fmt::format("<p>{} on {} in attempt {} of generation {}.</p>\n",
                       counted(ranks.world_size, "rank"), counted(ranks.nodes.size(), "node"),
                       ranks.attempt, ranks.generation);
  if (rows.empty()) return text + "<p>No node has evidence against it.</p>\n";
  return text +
         "<div class=\"scroll\"><table><tr><th>node</th><th>state</th><th>evidence</th></tr>" +
         rows + "</table></div>\n";
}

std::string checkpoints(const Source& run) {
  constexpr std::size_t kShown = 20;
  const auto& all = run.history.checkpoints();
  std::string rows;
  std::size_t shown = 0;
  for (auto saved = all.rbegin(); saved != all.rend() && shown < kShown; ++saved, ++shown)
    rows += fmt::format(
        "<tr><td class=\"number\">{}</td><td>{}</td><td class=\"number\">{:.1f} "
        "MiB</td><td class=\"number\">{:.1f} s</td><td>{}</td></tr>\n",
        with_commas(saved->iteration), minute(saved->wall),
        static_cast<double>(saved->bytes) / (1 << 20), saved->seconds,
        escaped(saved->fate.empty() ? "kept" : saved->fate));
  if (rows.empty()) return "";
  return fmt::format("<p class=\"muted\">{} of {} that were reported.</p>\n", shown, all.size()) +
         "<div class=\"scroll\"><table><tr><th class=\"number\">iteration</th><th>saved</th><th "
         "class=\"number\">size</th><th class=\"number\">took</th><th>now</th></tr>" +
         rows + "</table></div>\n";
}

std::string configuration(const Source& run) {
  std::string text;
  for (const std::string& build : run.builds) text += (text.empty() ? "" : ", ") + escaped(build);
  if (!text.empty()) text = "<p>Supervised by " + text + ".</p>\n";
  if (!run.policy.is_object()) return text;
  std::string lines;
  const std::string pretty = run.policy.dump(2, ' ', true, Json::error_handler_t::replace);
  for (std::size_t at = 0; at < pretty.size();) {
    const std::size_t end = std::min(pretty.find('\n', at), pretty.size());
    lines += escaped(pretty.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  return text + "<details><summary>The configuration in force, secrets hidden</summary><pre>" +
         lines + "</pre></details>\n";
}

std::string assemble(const Source& run, const std::optional<Source>& against, WallTime now,
                     std::size_t incidents_in_full) {
  const wire::StatusDocument& s = run.status;
  std::string period = run.first ? "from " + minute(*run.first) + " " : "";
  const auto published = parse_rfc3339(s.published);
  period += "as of " + (published ? minute(*published) : escaped(s.published)) + ", written " +
            minute(now);
  if (s.stale) period += "; no daemon observes it, so this is what was known then";
  if (run.unreadable > 0) period += fmt::format("; {} events could not be read", run.unreadable);
  return fmt::format(
             "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
             "<meta name=\"color-scheme\" content=\"light dark\"><title>{} – stoker</title>"
             "<style>{}</style></head><body>\n<h1>{}</h1>\n<p class=\"muted\">{}</p>\n",
             escaped(s.run), kStyle, escaped(s.run), period) +
         verdict(s) + figures(run) + section("What is to be done", must_do(s)) +
         section("Incidents", incidents(run, incidents_in_full)) +
         section("Where the time went", goodput(s)) + section("Charts", charts(run, now)) +
         (against ? comparison(run, *against) : "") + section("Nodes", nodes(run)) +
         section("Checkpoints", checkpoints(run)) + section("Configuration", configuration(run)) +
         "</body></html>\n";
}

}  // namespace

std::string report_html(const Source& run, const std::optional<Source>& against, WallTime now) {
  std::string html;
  for (std::size_t in_full = 500;; in_full /= 4) {
    html = assemble(run, against, now, in_full);
    if (html.size() <= kMostBytes || in_full == 0) return html;
  }
}

}  // namespace stoker::cli::postmortem
