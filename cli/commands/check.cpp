// stoker check RUN.yaml: every error with its place, exit 2 on any; what is known, assumed and not
// known of the training; --effective shows the whole configuration and where each value came from.
#include <fmt/format.h>
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/doctor/known.hpp"
#include "cli/doctor/script_abilities.hpp"
#include "cli/read/run_file.hpp"
#include "common/os/files.hpp"

namespace stoker::cli {
namespace {

struct CheckOptions {
  std::string path;
  bool effective = false, json = false;
};

Json as_json(const configs::CheckedRun& run, const std::string& text) {
  Json errors = Json::array();
  for (const configs::Diagnostic& e : run.file.errors)
    errors.push_back(
        {{"file", e.file}, {"line", e.at.line}, {"column", e.at.column}, {"message", e.message}});
  Json out{{"ok", run.file.errors.empty()}, {"errors", errors}};
  if (run.file.errors.empty()) {
    out["run"] = run.file.policy.run.text;
    out["directory"] = run.file.policy.directory;
    out["policy"] = run.file.policy;
    Json values = Json::array();
    for (const configs::EffectiveValue& v : run.file.values) {
      std::string key;
      for (const std::string& step : v.path) key += key.empty() ? step : "." + step;
      values.push_back({{"key", key}, {"value", v.value}, {"line", v.at.line}});
    }
    out["values"] = values;
    for (const auto& [what, how] : script_abilities(run.file.policy))
      out["without_agent"][what] = how;
    const Knowledge knowledge = knowledge_of(run, text);
    for (const auto& [name, rows] : {std::pair("known", &knowledge.known),
                                     {"assumed", &knowledge.assumed},
                                     {"not_known", &knowledge.not_known}}) {
      out[name] = Json::object();
      for (const auto& [what, how] : *rows) out[name][what] = how;
    }
  }
  return out;
}

void show_rows(const Console& console, const std::string& title, const Knowledge::Rows& rows) {
  if (!rows.empty()) console.line(printable(title));
  for (const auto& [what, text] : rows)
    console.line(fmt::format("  {:<12} {}", what, printable(text)));
}

int check(Context& context, const CheckOptions& options) {
  const auto run = read_run_file(context, options.path);
  if (!run) {
    context.console.say(run.error().message());
    return kUsage;
  }
  const std::string text = os::read_file(options.path, configs::kLargestYaml).value_or("");
  const int code = show_errors(context.console, run->file.errors);
  if (options.json) {
    context.console.line(dump_json(as_json(*run, text)));
    return code;
  }
  if (code != kDone) return code;
  if (options.effective) {
    context.console.out(printable_lines(run->file.effective));
    if (run->train)
      context.console.out("\n# " + printable(run->train_path) + "\n" +
                          printable_lines(run->train->effective));
    return kDone;
  }
  context.console.line(printable(options.path) + ": good (run " + run->file.policy.run.text +
                       (run->train ? ", " + printable(run->train_path) + " too" : "") + ")");
  const Knowledge knowledge = knowledge_of(*run, text);
  show_rows(context.console, "known:", knowledge.known);
  show_rows(context.console, "assumed:", knowledge.assumed);
  show_rows(context.console, "not known:", knowledge.not_known);
  show_rows(context.console,
            "its script runs without an agent:", script_abilities(run->file.policy));
  return kDone;
}

}  // namespace

Command cmd_check() {
  return {"check",
          "validate a RUN.yaml and the TRAIN.yaml of its command",
          {"stoker check hello.yaml", "stoker check hello.yaml --effective"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<CheckOptions>();
            app.add_option("RUN.yaml", options->path, "the run's configuration")->required();
            app.add_flag("--effective", options->effective,
                         "print the full configuration with where each value came from");
            app.add_flag("--json", options->json, "one JSON document");
            return [&context, options] { return check(context, *options); };
          }};
}

}  // namespace stoker::cli
