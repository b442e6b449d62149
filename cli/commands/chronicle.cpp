// stoker chronicle RUN: the run's story in Markdown, told from its published journal.
#include "core/chronicle.hpp"

#include <memory>

#include "cli/commands/all.hpp"
#include "cli/event_file.hpp"
#include "cli/published.hpp"

namespace stoker::cli {
namespace {

struct ChronicleOptions {
  std::string run;
  bool json = false;
};

// A published line as the journal row that it was made from, as far as the story needs it. Wall
// time stands in for engine time.
std::optional<core::JournalRow> row_of(const wire::PublishedEvent& e) {
  auto body = from_json<core::EventBody>(e.event, "events.jsonl");
  const auto wall = parse_rfc3339(e.time);
  if (!body || !wall) return std::nullopt;
  core::JournalRow row;
  row.seq = Sequence(e.seq);
  row.event.wall = *wall;
  row.event.at = Instant(wall->time_since_epoch());
  row.event.run = RunName(e.run);
  row.event.body = *std::move(body);
  row.decision.reason = e.reason;
  row.decision.rejected = e.decision == "rejected";
  constexpr std::string_view kArrow = " -> ";
  if (const std::size_t at = e.decision.find(kArrow); at != std::string::npos) {
    row.decision.from = e.decision.substr(0, at);
    row.decision.to = e.decision.substr(at + kArrow.size());
  }
  return row;
}

int chronicle(Context& context, const ChronicleOptions& options) {
  const Console& console = context.console;
  auto opened = open_events(context, options.run);
  if (!opened) return console.say(opened.error().message()), kFailed;
  auto& [run, file] = *opened;
  std::vector<core::JournalRow> rows;
  core::RunPolicy policy;
  policy.run = RunName(run.run);
  std::size_t unknown = 0;
  const Status read = file.read(std::nullopt, 0, [&](const wire::PublishedEvent& e) {
    auto row = row_of(e);
    if (!row) {
      ++unknown;
      return;
    }
    if (const auto* added = std::get_if<core::RunAdded>(&row->event.body)) policy = added->policy;
    if (const auto* changed = std::get_if<core::PolicyChanged>(&row->event.body))
      policy = changed->policy;
    rows.push_back(*std::move(row));
  });
  if (!read) return console.say(read.error().message()), kFailed;
  if (unknown + file.unreadable() > 0)
    console.say(std::to_string(unknown + file.unreadable()) +
                " events could not be read and are not in the story");
  const std::string text = printable_lines(core::chronicle(rows, policy));
  if (options.json)
    console.line(dump_json(Json{{"run", policy.run.text}, {"markdown", text}}));
  else
    console.out(text);
  return kDone;
}

}  // namespace

Command cmd_chronicle() {
  return {"chronicle",
          "the run's story in Markdown: incidents, evidence, what was done, what it cost",
          {"stoker chronicle hello > chronicle.md"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<ChronicleOptions>();
            app.add_option("RUN", options->run, "name of a run or a run directory");
            app.add_flag("--json", options->json, "one JSON document with the text");
            return [&context, options] { return chronicle(context, *options); };
          }};
}

}  // namespace stoker::cli
