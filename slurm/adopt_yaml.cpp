// RUN.yaml for an adopted script.
#include <fmt/format.h>

#include "common/json.hpp"
#include "common/printable.hpp"
#include "slurm/adopt.hpp"

namespace stoker::slurm {
namespace {

// A double-quoted scalar: JSON's strings are YAML's.
std::string quoted(const std::string& text) {
  return dump_json(Json(text));
}

std::string list(const std::vector<std::string>& values) {
  std::string out;
  for (const std::string& value : values)
    out += fmt::format("{}{}", out.empty() ? "" : ", ", quoted(value));
  return "[" + out + "]";
}

}  // namespace

std::string run_yaml_of(const AdoptedScript& s) {
  std::string out =
      fmt::format("# Supervises {}\n# as it is: docs/slurm.md says what works without an agent.\n",
                  printable(s.path));
  for (const std::string& text : s.notes) out += fmt::format("# note: {}\n", quoted(text));
  out += fmt::format("run: {}\n\nscheduler:\n  kind: slurm\n", quoted(s.run));
  if (!s.cluster.empty()) out += fmt::format("  cluster: {}\n", quoted(s.cluster));
  out += fmt::format("  nodes: {}\n", s.nodes);
  if (s.time_limit)
    out += fmt::format("  time_limit: {}s\n", *s.time_limit / std::chrono::seconds(1));
  out += fmt::format("  array: {{tasks: {}, top_up_below: 0}}\n", s.array_tasks);
  if (!s.exclude.empty()) out += fmt::format("  exclude: {}\n", list(s.exclude));
  out += fmt::format("\ntrain:\n  batch_script: {}\n  ranks_per_node: {}\n", quoted(s.path),
                     s.ranks_per_node);
  if (!s.kill_switch.empty()) out += fmt::format("  kill_switch: {}\n", quoted(s.kill_switch));
  if (!s.save_signal.empty()) out += fmt::format("  save_signal: {}\n", s.save_signal);
  if (s.exit_before_limit)
    out += fmt::format("  exit_before_limit: {}s  # it leaves by itself after {} min\n",
                       *s.exit_before_limit / std::chrono::seconds(1),
                       *s.leaves_after / std::chrono::minutes(1));
  if (s.last_iteration) out += fmt::format("  finished: {{iteration: {}}}\n", *s.last_iteration);
  if (!s.checkpoints.empty()) {
    out += "\ncheckpoints:";
    if (s.save_every) out += fmt::format("  # it saves every {} iterations", *s.save_every);
    out += fmt::format("\n  directory: {}\n", quoted(s.checkpoints));
    if (!s.checkpoint_format.empty()) out += fmt::format("  format: {}\n", s.checkpoint_format);
  }
  out += fmt::format("\nwatch:\n  logs: {}\n", list(s.logs));
  return out;
}

}  // namespace stoker::slurm
