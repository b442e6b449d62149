// stoker chronicle RUN: the run's story in Markdown, from its published journal.
#include "core/publish/chronicle.hpp"

#include <memory>

#include "cli/commands/all.hpp"
#include "cli/read/event_file.hpp"
#include "cli/read/journal_rows.hpp"
#include "cli/read/published.hpp"

namespace stoker::cli {
namespace {

struct ChronicleOptions {
  std::string run;
  bool json = false;
};

int chronicle(Context& context, const ChronicleOptions& options) {
  const Console& console = context.console;
  auto opened = open_events(context, options.run);
  if (!opened) return console.say(opened.error().message()), kFailed;
  auto& [run, file] = *opened;
  std::vector<core::JournalRow> rows;
  JournalRows published;
  std::size_t unknown = 0;
  const RunName name(run.run);
  const Status read = file.read(std::nullopt, 0, [&](const wire::PublishedEvent& e) {
    auto row = published.row_of(e);
    if (!row) {
      ++unknown;
      return;
    }
    if (!row->event.run.empty()) row->event.run = name;  // it may have had another
    rows.push_back(*std::move(row));
  });
  if (!read) return console.say(read.error().message()), kFailed;
  if (unknown + file.unreadable() > 0)
    console.say(std::to_string(unknown + file.unreadable()) +
                " events could not be read and are not in the story");
  const auto status = read_status(run, Reach::Answered);
  const wire::StatusGoodput* account = status && status->goodput ? &*status->goodput : nullptr;
  const std::string text = printable_lines(core::chronicle(rows, RunName(run.run), account));
  if (options.json)
    console.line(dump_json(Json{{"run", run.run}, {"markdown", text}}));
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
