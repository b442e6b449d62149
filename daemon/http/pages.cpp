// Pages: OpenMetrics by hand (no kept library fits), one self-contained HTML page, JSON as
// published.
#include "daemon/http/pages.hpp"

#include <fmt/format.h>

namespace stoker::daemon {
namespace {

constexpr const char* kText = "text/plain; charset=utf-8";
constexpr const char* kJson = "application/json";
constexpr const char* kMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
constexpr const char* kHtml = "text/html; charset=utf-8";
constexpr std::string_view kRunPrefix = "/api/v1/status/";

class Metrics {
 public:
  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += fmt::format("# TYPE {} {}\n# HELP {} {}\n", name, type, name, help);
    suffix_ = std::string_view(type) == "counter" ? "_total" : "";
  }
  void sample(const std::string& labels, double value) {
    text_ += fmt::format("{}{}{} {}\n", name_, suffix_, labels, value);
  }
  std::string finish() { return text_ + "# EOF\n"; }

 private:
  std::string text_;
  const char* name_ = "";
  const char* suffix_ = "";
};

std::string run_label(const wire::StatusDocument& run) {
  return fmt::format("{{run=\"{}\"}}", escape_label(run.run));
}

void run_metrics(Metrics& metrics, const SiteView& view) {
  const auto each = [&](const char* name, const char* type, const char* help, auto&& value) {
    metrics.family(name, type, help);
    for (const auto& run : view.runs)
      if (const std::optional<double> v = value(run)) metrics.sample(run_label(run), *v);
  };
  using Run = const wire::StatusDocument&;
  using Value = std::optional<double>;
  metrics.family("stoker_run_state", "gauge", "1 for the state that the run is in.");
  for (const auto& run : view.runs)
    metrics.sample(
        fmt::format("{{run=\"{}\",state=\"{}\"}}", escape_label(run.run), escape_label(run.state)),
        1);
  each("stoker_run_iteration", "gauge", "Completed optimizer steps.",
       [](Run r) -> Value { return static_cast<double>(r.iteration); });
  each("stoker_run_loss", "gauge", "Last training loss.", [](Run r) -> Value { return r.loss; });
  each("stoker_run_step_seconds", "gauge", "Duration of the last iteration.",
       [](Run r) -> Value { return r.step_s; });
  each("stoker_run_progress_age_seconds", "gauge", "Age of the oldest rank's last progress.",
       [](Run r) -> Value { return r.progress_age_s; });
  each("stoker_run_checkpoint_age_seconds", "gauge", "Age of the newest checkpoint.",
       [](Run r) -> Value { return r.checkpoint ? Value(r.checkpoint->age_s) : std::nullopt; });
  each("stoker_run_restarts", "counter", "Restarts since the run began.",
       [](Run r) -> Value { return r.restarts; });
  each("stoker_run_restarts_left", "gauge", "What is left of the restart budget.",
       [](Run r) -> Value { return r.budget.restarts_left; });
  each("stoker_run_alerts", "gauge", "Open alerts.",
       [](Run r) -> Value { return static_cast<double>(r.alerts.size()); });
}

std::string render_home(const SiteView& view) {
  std::string rows;
  for (const auto& r : view.runs)
    rows += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}/{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        escape_html(r.run), escape_html(r.state), r.iteration, r.total,
        r.loss ? fmt::format("{:.4g}", *r.loss) : "-", r.alerts.size(), escape_html(r.reason));
  return fmt::format(
      "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=10>"
      "<title>stoker</title><style>body{{font:15px system-ui;margin:2em}}"
      "table{{border-collapse:collapse}}td,th{{padding:.3em .8em;text-align:left;"
      "border-bottom:1px solid #ccc}}</style><h1>stoker</h1><table><tr><th>run<th>state"
      "<th>iteration<th>loss<th>alerts<th>why</tr>\n{}</table><p>{} · epoch {} · "
      "{} journal rows{}</p></html>\n",
      rows, escape_html(view.health.build), view.health.epoch, view.health.journal_rows,
      view.health.journal_trouble.empty()
          ? ""
          : " · <b>" + escape_html(view.health.journal_trouble) + "</b>");
}

Page health_page(const SiteView& view) {
  if (!view.health.journal_trouble.empty())
    return {503, kText, "journal: " + view.health.journal_trouble + "\n"};
  if (!view.health.scheduler_trouble.empty())
    return {200, kText, "ok, but blind: " + view.health.scheduler_trouble + "\n"};
  return {200, kText, "ok\n"};
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string escape_label(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string render_metrics(const SiteView& view) {
  Metrics metrics;
  metrics.family("stoker_up", "gauge", "1: the journal can be written; 0: nothing is done.");
  metrics.sample("", view.health.journal_trouble.empty() ? 1 : 0);
  metrics.family("stoker_uptime_seconds", "gauge", "Since this daemon started.");
  metrics.sample("", view.health.uptime_s);
  metrics.family("stoker_journal_rows", "counter", "Rows of the journal.");
  metrics.sample("", static_cast<double>(view.health.journal_rows));
  metrics.family("stoker_effects_waiting", "gauge", "Effects without a result yet.");
  metrics.sample("", static_cast<double>(view.health.effects_waiting));
  metrics.family("stoker_scheduler_blind", "gauge", "1: the scheduler gives no good answers.");
  metrics.sample("", view.health.scheduler_trouble.empty() ? 0 : 1);
  metrics.family("stoker_node_excluded", "gauge", "1 for each excluded or suspect node.");
  for (const auto& node : view.nodes)
    if (node.state != "ok")
      metrics.sample(fmt::format("{{node=\"{}\",state=\"{}\"}}", escape_label(node.node),
                                 escape_label(node.state)),
                     1);
  run_metrics(metrics, view);
  return metrics.finish();
}

Page render_page(const SiteView& view, std::string_view path) {
  if (path == "/healthz") return health_page(view);
  if (path == "/metrics") return {200, kMetrics, render_metrics(view)};
  if (path == "/api/v1/status") return {200, kJson, to_json_text(view.runs) + "\n"};
  if (path == "/api/v1/nodes") return {200, kJson, to_json_text(view.nodes) + "\n"};
  if (path == "/api/v1/health") return {200, kJson, to_json_text(view.health) + "\n"};
  if (path.starts_with(kRunPrefix))
    for (const auto& run : view.runs)
      if (run.run == path.substr(kRunPrefix.size())) return {200, kJson, to_json_text(run) + "\n"};
  if (path == "/") return {200, kHtml, render_home(view)};
  return {404, kText, "there is no such page\n"};
}

}  // namespace stoker::daemon
