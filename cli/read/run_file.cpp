// Joins the strict reader with what only this build and this machine know.
#include "cli/read/run_file.hpp"

#include <fmt/format.h>
#include <re2/re2.h>

#include "alerts/sink.hpp"
#include "common/os/files.hpp"
#include "common/os/self.hpp"
#include "diagnose/knowledge.hpp"

namespace stoker::cli {

std::vector<configs::SinkKind> known_sink_kinds() {
  std::vector<configs::SinkKind> kinds;
  for (const alerts::SinkKind& known : alerts::known_sinks()) {
    configs::SinkKind kind{known.kind, {}, {}};
    for (const alerts::SinkOption& option : known.options)
      (option.required ? kind.required : kind.optional).push_back(option.name);
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

std::string regex_error(const std::string& expression) {
  RE2::Options options;
  options.set_log_errors(false);
  const RE2 compiled(expression, options);
  if (!compiled.ok()) return compiled.error();
  return compiled.NumberOfCapturingGroups() > 0 ? "" : "the number must stand in a group: (\\d+)";
}

namespace {

// A mistake in a site's signature file is one of the run's configuration.
void check_signatures(configs::RunConfigFile& file) {
  std::vector<diagnose::SiteFile> files;
  for (const std::string& path : file.policy.watch.signatures)
    if (auto text = os::read_file(path, 1u << 20)) files.push_back({path, std::move(*text)});
  if (!files.empty()) diagnose::load_knowledge(files, file.errors);
}

configs::RunSchemaContext schema_of(const Context& context) {
  configs::RunSchemaContext schema;
  schema.state_directory = context.state;
  schema.sinks = known_sink_kinds();
  schema.sink_error = [](const core::SinkPolicy& sink) {
    const Status checked = alerts::check_sink(sink);
    return checked ? std::string() : checked.error().what;
  };
  return schema;
}

}  // namespace

Result<configs::CheckedRun> read_run_file(const Context& context, const std::string& path) {
  const configs::RunWorld world{context.environment, regex_error, {}};
  auto run = configs::load_run_config(path, schema_of(context), world);
  if (run && run->file.errors.empty()) check_signatures(run->file);
  return run;
}

configs::CheckedRun check_run_text(const Context& context, const std::string& text,
                                   const std::string& path) {
  configs::RunSchemaContext schema = schema_of(context);
  schema.file = schema.config_path = path;
  return configs::check_run_config(text, schema, {context.environment, regex_error, {}});
}

int show_errors(const Console& console, const configs::Diagnostics& errors) {
  for (const configs::Diagnostic& error : errors) console.raw_error(printable(error.text()) + "\n");
  return errors.empty() ? kDone : kUsage;
}

core::SubmitRequest first_submission(const core::RunPolicy& policy) {
  core::SubmitRequest request;
  request.policy = policy;
  request.submit.token = Token(policy.run.text + "-1-dryrun");
  request.submit.order = OrderNumber(1);
  request.submit.array_tasks = policy.scheduler.array_tasks;
  request.submit.nodes = policy.scheduler.nodes.front().nodes + policy.scheduler.spares;
  request.submit.time_limit = policy.scheduler.time_limit;
  request.submit.exclude = policy.scheduler.exclude;
  request.submit.begin = policy.scheduler.begin;
  const std::string agent =
      policy.train.agent.empty() ? os::own_program("stoker-agent") : policy.train.agent;
  request.agent_command = {agent, "run", "--run-dir", policy.directory, "--generation", "auto"};
  return request;
}

}  // namespace stoker::cli
