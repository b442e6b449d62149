// Joins the strict reader with what only this build and this machine know.
#include "cli/read/run_file.hpp"

#include <fmt/format.h>
#include <grp.h>
#include <re2/re2.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alerts/sink.hpp"
#include "common/os/own_files.hpp"
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

std::string group_name_of(gid_t group) {
  std::vector<char> buffer(256u << 10);
  struct group record {};
  struct group* found = nullptr;
  if (::getgrgid_r(group, &record, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return record.gr_name;
  return fmt::format("gid {}", group);
}

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

void warn_of_writers(const Console& console, const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return;
  const std::string owner = os::user_name_of(info.st_uid);
  const std::string group = group_name_of(info.st_gid);
  std::string who;
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    who = owner;
  else if ((info.st_mode & S_IWOTH) != 0)
    who = "everybody";
  else if ((info.st_mode & S_IWGRP) != 0 && group != owner)  // many users have a group of their own
    who = "group " + group;
  if (!who.empty())
    console.say(
        fmt::format("{0}: {1} can write it, and so decides what is executed as you; keep it "
                    "where only you can write: chmod go-w {0}",
                    path, who));
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
