// stoker metrics: the text of /metrics from what the daemon last published, for Prometheus'
// textfile collector or a look.
#include "wire/metrics.hpp"

#include <memory>

#include "cli/commands/all.hpp"
#include "cli/read/published.hpp"
#include "common/os/files.hpp"
#include "common/os/output.hpp"

namespace stoker::cli {
namespace {

struct MetricsOptions {
  std::string output;
  bool open_metrics = false, json = false;
};

// Absent: the daemon never published, or is of an older version.
template <class Document>
Document published_document(const std::string& path) {
  const auto text = os::read_file(path, 8u << 20);
  if (!text) return {};
  auto document = from_json_text<Document>(*text, path);
  return document ? *std::move(document) : Document{};
}

int metrics(Context& context, const MetricsOptions& options) {
  const Console& console = context.console;
  const auto site = published_site(context.state);
  if (!site) return console.say(site.error().message()), kFailed;
  const auto nodes = published_nodes(context.state);
  if (!nodes) return console.say(nodes.error().message()), kFailed;
  const Reach reach = note_daemon(context);
  std::vector<wire::StatusDocument> runs;
  for (const wire::SiteRun& run : site->runs) {
    auto status = read_status(run, reach);
    if (status)
      runs.push_back(*std::move(status));
    else
      console.say(status.error().message());
  }
  const std::string published = context.state + "/published";
  const auto failing =
      published_document<std::vector<wire::FailingSink>>(published + "/sinks.json");
  const auto health = published_document<wire::DaemonHealth>(published + "/health.json");
  const auto form = options.open_metrics ? wire::MetricsForm::OpenMetrics : wire::MetricsForm::Text;
  const std::string text = wire::metrics_text(
      {runs, *nodes, site->alerts, failing, health, reach == Reach::Answered}, form);
  if (options.json) return console.line(dump_json({{"text", text}})), kDone;
  if (options.output.empty()) return console.out(printable_lines(text)), kDone;
  const auto written = os::write_output(options.output, text, os::Durability::Cached);
  if (!written) return console.say(written.error().message()), kFailed;
  return kDone;
}

}  // namespace

Command cmd_metrics() {
  return {"metrics",
          "the text of /metrics, from what the daemon last published",
          {"stoker metrics", "stoker metrics -o /var/lib/node_exporter/stoker.prom"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<MetricsOptions>();
            app.add_option("-o,--output", options->output,
                           "write to this file at once as a whole, for node_exporter's textfile "
                           "collector")
                ->type_name("FILE");
            app.add_flag("--openmetrics", options->open_metrics,
                         "OpenMetrics 1.0 instead of the text form 0.0.4");
            app.add_flag("--json", options->json, "one JSON document");
            return [&context, options] { return metrics(context, *options); };
          }};
}

}  // namespace stoker::cli
