// The root of RUN.yaml and what holds between its sections.
#include "configs/schema/run_schema.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "configs/schema/run_sections.hpp"

namespace stoker::configs {
namespace {

std::string dotted_path(const std::vector<std::string>& path) {
  return fmt::format("{}", fmt::join(path, "."));
}

void read_identity(MapReader& root, core::RunPolicy& p, const RunSchemaContext& context) {
  if (root.require("run", p.run) && root.has("run"))
    root.check("run", is_run_name(p.run.text),
               "a run's name is 1 to 64 letters, digits, '.', '_' or '-', the first a letter or "
               "digit");
  const bool named = is_run_name(p.run.text);
  std::string directory = context.state_directory + "/runs/" + (named ? p.run.text : "run");
  root.read("directory", directory);
  root.check("directory", !directory.empty(), "must not be empty");
  p.directory = path_from(p.config_directory, directory);
  root.read("group", p.group);
  if (p.group.empty()) return;
  const std::string inside = path_from(context.state_directory, ".") + "/";
  root.check("group", root.has("directory") && !(p.directory + "/").starts_with(inside),
             "a run of a group needs a directory outside the state directory, which is its "
             "owner's alone");
}

// What needs more than one section.
void check_together(RunConfigFile& file) {
  core::RunPolicy& p = file.policy;
  const Duration limit = p.scheduler.time_limit;
  if (p.train.exit_before_limit >= limit)
    file.add_error("train.exit_before_limit",
                   fmt::format("{} is not shorter than scheduler.time_limit {}: every task would "
                               "leave at once",
                               format_duration(p.train.exit_before_limit), format_duration(limit)));
  if (p.budget.gpu_hours > 0 && p.scheduler.gpus_per_node.value_or(0) == 0)
    file.add_error("budget.gpu_hours",
                   "GPU hours are not counted without scheduler.gpus_per_node; set it to what a "
                   "node has");
  if (p.checkpoints.format != "stoker" && core::has_agents(p))
    file.add_error("checkpoints.format",
                   "judging checkpoints of the format " + p.checkpoints.format +
                       " is not supported by this version of stoker; only beside "
                       "train.batch_script, where `stoker rollback` sets them back");
  if (!p.checkpoints.archive_to.empty() &&
      (p.checkpoints.format != "stoker" || !core::has_agents(p)))
    file.add_error(
        "checkpoints.archive",
        "only checkpoints of stoker's own format are copied, by the agent in the job: "
        "stoker cannot see when another format's folder is complete, and a batch script has no "
        "agent; copy them in the script");
  if (p.checkpoints.format != "stoker" && p.recover.rollback_enabled)
    file.add_error("recover.rollback.enabled",
                   "rollback needs checkpoints that stoker can judge: checkpoints.format: stoker");
}

}  // namespace

bool is_run_name(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (name.empty() || name.size() > 64 || !letter(name[0])) return false;
  return std::all_of(name.begin(), name.end(),
                     [&](char c) { return letter(c) || c == '.' || c == '_' || c == '-'; });
}

std::string path_from(const std::string& directory, const std::string& path) {
  std::string joined =
      (std::filesystem::path(directory) / std::filesystem::path(path)).lexically_normal().string();
  while (joined.size() > 1 && joined.back() == '/') joined.pop_back();
  if (joined.size() > 2 && joined.ends_with("/.")) joined.resize(joined.size() - 2);
  return joined;
}

Position RunConfigFile::position_of(std::string_view dotted) const {
  for (std::string key(dotted); !key.empty();
       key.resize(key.find('.') == std::string::npos ? 0 : key.rfind('.'))) {
    Position best;
    for (const EffectiveValue& v : values) {
      const std::string path = dotted_path(v.path);
      if (v.at.line == 0 || (path != key && !path.starts_with(key + "."))) continue;
      if (best.line == 0 || v.at < best) best = v.at;
    }
    if (best.line > 0) return best;
  }
  return {1, 1};
}

void RunConfigFile::add_error(std::string_view dotted, const std::string& message) {
  errors.push_back({file, position_of(dotted), fmt::format("{}: {}", dotted, message)});
  std::stable_sort(errors.begin(), errors.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.at < b.at; });
}

RunConfigFile read_run_config(std::string_view text, const RunSchemaContext& context) {
  RunConfigFile result;
  result.file = context.file;
  core::RunPolicy& p = result.policy;
  p.config_path = context.config_path;
  p.config_directory = std::filesystem::path(context.config_path).parent_path().string();
  YamlReader reader(text, context.file);
  reader.root([&](MapReader& root) {
    read_identity(root, p, context);
    root.map("scheduler",
             [&](MapReader& m) { read_scheduler(m, p.scheduler, p.config_directory); });
    // Ten minutes suit a limit of hours; a short one keeps three quarters of its time.
    p.train.exit_before_limit = std::min(p.train.exit_before_limit, p.scheduler.time_limit / 4);
    root.required("train").map([&](MapReader& m) { read_train(m, p.train, p.config_directory); });
    root.map("watch", [&](MapReader& m) { read_watch(m, p.watch, p.config_directory); });
    root.map("hang", [&](MapReader& m) { read_hang(m, p.hang); });
    root.map("recover", [&](MapReader& m) { read_recover(m, p.recover); });
    root.map("checkpoints",
             [&](MapReader& m) { read_checkpoints(m, p.checkpoints, p.config_directory); });
    read_after(root, p);
    root.map("goodput", [&](MapReader& m) { read_goodput(m, p.goodput); });
    root.map("budget", [&](MapReader& m) { read_budget(m, p.budget); });
    root.map("alerts", [&](MapReader& m) { read_alerts(m, p.alerts, context); });
  });
  result.errors = reader.errors();
  result.values = reader.effective();
  result.effective = reader.render_effective();
  if (result.errors.empty()) check_together(result);
  return result;
}

}  // namespace stoker::configs
