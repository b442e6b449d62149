// stoker parse FILE: the iteration and validation lines of a log, of any program.
#include <fmt/format.h>
#include <memory>

#include "cli/commands/all.hpp"
#include "diagnose/input/parse_file.hpp"

namespace stoker::cli {
namespace {

struct ParseOptions {
  std::string file;
  bool json = false;
};

std::string shown(const Json& fields) {
  std::string text;
  for (const auto& [key, value] : fields.items()) {
    if (key == "file" || key == "line" || key == "kind" || value.is_object()) continue;
    text += "  " + key + " " + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

int parse(Context& context, const ParseOptions& options) {
  std::uint64_t found = 0;
  const auto read = diagnose::parse_file(options.file, [&](const diagnose::FoundMetrics& m) {
    ++found;
    const Json fields = std::visit(
        [&](const auto& metrics) { return diagnose::to_parse_json(metrics, options.file, m.line); },
        m.found);
    if (options.json)
      context.console.line(dump_json(fields));
    else
      context.console.line(printable(fmt::format("{}:{}:{}", options.file, m.line, shown(fields))));
  });
  if (!read) return context.console.say(read.error().message()), kFailed;
  for (const auto& note : read->notes) context.console.say(printable(options.file) + ": " + note);
  if (found == 0) {
    context.console.say("no iteration lines of a known form in " + printable(options.file));
    for (const auto& text : read->templates) context.console.say("frequent: " + printable(text));
    if (!read->templates.empty())
      context.console.say("name the numbers to me with watch.progress (docs/configuration.md)");
  }
  return kDone;
}

}  // namespace

Command cmd_parse() {
  return {"parse",
          "the iteration metrics found in a log",
          {"stoker parse main.log --json"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<ParseOptions>();
            app.add_option("FILE", options->file, "a log; - is standard input")->required();
            app.add_flag("--json", options->json, "JSON lines");
            return [&context, options] { return parse(context, *options); };
          }};
}

}  // namespace stoker::cli
