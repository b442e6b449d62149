// stoker check RUN.yaml: every error with its place, exit 2 on any; what is known, assumed and not
// known of the training; --effective shows the whole configuration and where each value came from.
#include <fmt/format.h>
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/doctor/known.hpp"
#include "cli/doctor/script_abilities.hpp"
#include "cli/read/run_file.hpp"
#include "cli/read/writers.hpp"
#include "cli/show/documents.hpp"
#include "common/os/files.hpp"

namespace stoker::cli {
namespace {

struct CheckOptions {
  std::string path;
  bool effective = false, json = false;
};

std::vector<CheckError> errors_of(const configs::CheckedRun& run) {
  std::vector<CheckError> errors;
  for (const configs::Diagnostic& e : run.file.errors)
    errors.push_back({e.file, e.at.line, e.at.column, e.message});
  return errors;
}

std::map<std::string, std::string> as_map(const Knowledge::Rows& rows) {
  return {rows.begin(), rows.end()};
}

Json as_json(const configs::CheckedRun& run, const std::string& text) {
  if (!run.file.errors.empty()) return CheckRefusal{false, errors_of(run)};
  CheckDocument out;
  out.run = run.file.policy.run.text;
  out.directory = run.file.policy.directory;
  out.policy = run.file.policy;
  for (const configs::EffectiveValue& v : run.file.values) {
    std::string key;
    for (const std::string& step : v.path) key += key.empty() ? step : "." + step;
    out.values.push_back({key, v.value, v.at.line});
  }
  const Knowledge knowledge = knowledge_of(run, text);
  out.known = as_map(knowledge.known);
  out.assumed = as_map(knowledge.assumed);
  out.not_known = as_map(knowledge.not_known);
  out.without_agent = as_map(script_abilities(run.file.policy));
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
  if (code == kDone) warn_of_writers(context.console, options.path, run->file.policy);
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
