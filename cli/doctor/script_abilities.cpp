#include "cli/doctor/script_abilities.hpp"

#include <fmt/format.h>

#include "core/recover/resume_files.hpp"
#include "core/supply/script.hpp"

namespace stoker::cli {
namespace {

std::string save_text(const core::RunPolicy& p) {
  if (!p.train.save_signal.empty())
    return fmt::format("by {} to the processes of its steps (train.save_signal)",
                       p.train.save_signal);
  if (core::script::leaves_when_told(p))
    return fmt::format(
        "only by saving and leaving: {} is set, the next job goes on (train.kill_switch)",
        p.train.kill_switch);
  if (!p.train.kill_switch.empty())
    return "no: its kill switch would end the next task of its array too; train.save_signal would "
           "do";
  return "no: it needs train.save_signal or train.kill_switch";
}

std::string stop_text(const core::RunPolicy& p) {
  if (!p.train.kill_switch.empty())
    return fmt::format("sets {}, cancels after {}", p.train.kill_switch,
                       format_duration(core::script::patience(p)));
  if (!p.train.save_signal.empty())
    return fmt::format("sends {}, cancels after {}", p.train.save_signal,
                       format_duration(core::script::patience(p)));
  return "cancels the job: what was not saved is lost (neither train.kill_switch nor "
         "train.save_signal)";
}

std::string rollback_text(const core::RunPolicy& p) {
  const std::string& folder = p.checkpoints.directory;
  const auto files = core::resume_files(
      p.checkpoints.format, folder.starts_with("/") ? folder : p.directory + "/" + folder,
      Iteration{});
  if (files.names.empty())
    return "no: it needs checkpoints.format megatron or deepspeed, and checkpoints.directory";
  return fmt::format(
      "sets {} while no job runs, the old word is kept beside it; --lr-scale and "
      "--skip-samples are refused",
      files.names.front().path);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> script_abilities(const core::RunPolicy& p) {
  if (core::has_agents(p)) return {};
  const bool array = p.scheduler.array_tasks > 1;
  const std::string ceiling = format_duration(p.hang.ceiling);
  return {
      {"hang", fmt::format("logs silent for {} (hang.ceiling), then a probe by srun --overlap that "
                           "collects the stacks; the job is cancelled, the next one goes on",
                           ceiling)},
      {"limbo", "proven by the same probe: no process on its nodes, no step in SLURM"},
      {"two at once", array ? "within its array only SLURM's own %1 keeps two tasks apart"
                            : "no job is submitted before the one before is proven over"},
      {"lost node",
       array ? "SLURM starts the next task at once; the lost node's processes may write on"
             : fmt::format("the next job waits until logs and checkpoints have not changed for {}",
                           format_duration(core::script::kOrphanGrace))},
      {"time limit", core::script::leaves_when_told(p)
                         ? fmt::format("saves and leaves {} before the wall",
                                       format_duration(p.train.exit_before_limit))
                         : "runs into the wall: what was not saved is computed again"},
      {"save", save_text(p)},
      {"stop", stop_text(p)},
      {"stacks", "by srun --overlap into the running job"},
      {"rollback", rollback_text(p)},
      {"resume audit", "no: its checkpoints are not read"},
  };
}

}  // namespace stoker::cli
