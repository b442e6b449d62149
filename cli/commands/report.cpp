// stoker report RUN -o FILE: the run's post-mortem as one HTML file.
#include "cli/report/report.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <memory>
#include <set>

#include "cli/commands/all.hpp"
#include "cli/read/event_file.hpp"
#include "cli/read/journal_rows.hpp"
#include "cli/read/published.hpp"
#include "common/os/output.hpp"

namespace stoker::cli {
namespace {

struct ReportOptions {
  std::string run, output, against;
};

void add_loss(std::vector<postmortem::LossAt>& losses, const wire::Beat& beat) {
  if (!beat.loss || !std::isfinite(*beat.loss)) return;
  const postmortem::LossAt at{beat.consumed_samples, beat.iteration_max.value, *beat.loss};
  while (!losses.empty() && losses.back().iteration >= at.iteration) losses.pop_back();
  losses.push_back(at);
}

// Nodes of the site that carried this run's ranks or that it has accused, with evidence.
std::vector<wire::PublishedNode> nodes_of(const std::string& state,
                                          const postmortem::Source& source) {
  std::set<std::string> own(source.status.nodes.begin(), source.status.nodes.end());
  for (const std::string& node : source.history.ranks().nodes) own.insert(node);
  auto all = published_nodes(state);
  std::vector<wire::PublishedNode> nodes;
  if (!all) return nodes;
  for (wire::PublishedNode& node : *all) {
    const bool named = std::any_of(node.evidence.begin(), node.evidence.end(), [&](const auto& e) {
      return e.find(source.status.run) != std::string::npos;
    });
    if (!node.evidence.empty() && (named || own.contains(node.node)))
      nodes.push_back(std::move(node));
  }
  return nodes;
}

Result<postmortem::Source> source_of(const Context& context, const std::string& name, Reach reach) {
  STOKER_TRY(run, name.empty() ? only_run(context.state) : find_run(context.state, name));
  STOKER_TRY(status, read_status(run, reach));
  postmortem::Source source{
      std::move(status), core::History(RunName(run.run)), {}, {}, {}, {}, {}, 0};
  STOKER_TRY(file, EventFile::open(run.directory));
  JournalRows rows;
  const Status read = file.read(std::nullopt, 0, [&](const wire::PublishedEvent& e) {
    const auto row = rows.row_of(e);
    if (!row) {
      ++source.unreadable;
      return;
    }
    if (!source.first) source.first = row->event.wall;
    source.history.take(*row);
    const core::EventBody& body = row->event.body;
    if (const auto* digest = std::get_if<core::Digest>(&body))
      add_loss(source.losses, digest->last);
    if (std::holds_alternative<core::RunAdded>(body) ||
        std::holds_alternative<core::PolicyChanged>(body))
      source.policy = e.event.value("policy", Json());
    if (const auto* started = std::get_if<core::DaemonStarted>(&body);
        started != nullptr && std::find(source.builds.begin(), source.builds.end(),
                                        started->build) == source.builds.end())
      source.builds.push_back(started->build);
  });
  if (!read) return fail(read.error());
  source.unreadable += file.unreadable();
  source.nodes = nodes_of(context.state, source);
  return source;
}

int write_report(Context& context, const ReportOptions& options) {
  const Console& console = context.console;
  const Reach reach = note_daemon(context);
  const auto source = source_of(context, options.run, reach);
  if (!source) return console.say(source.error().message()), kFailed;
  std::optional<postmortem::Source> against;
  if (!options.against.empty()) {
    auto other = source_of(context, options.against, reach);
    if (!other) return console.say(other.error().message()), kFailed;
    against = *std::move(other);
  }
  const std::string html = postmortem::report_html(*source, against, wall_now());
  if (options.output.empty() || options.output == "-")
    return console.out(printable_lines(html)), kDone;
  if (const auto written = os::write_output(options.output, html, os::Durability::Cached, 0600);
      !written)
    return console.say(written.error().message()), kFailed;
  console.say(fmt::format("{}: the report of {}, {} KiB; open it in a browser", options.output,
                          source->status.run, (html.size() + 1023) / 1024));
  return kDone;
}

}  // namespace

Command cmd_report() {
  return {"report",
          "one HTML file: outcome, cost, charts, incidents, nodes, checkpoints, configuration",
          {"stoker report hello -o report.html", "stoker report new -o report.html --against old"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<ReportOptions>();
            app.add_option("RUN", options->run, "name of a run or a run directory");
            app.add_option("-o,--output", options->output, "where to write; none: standard output");
            app.add_option("--against", options->against,
                           "another run: losses on the same samples, speed, incidents");
            return [&context, options] { return write_report(context, *options); };
          }};
}

}  // namespace stoker::cli
