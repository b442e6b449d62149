// The draft of a batch script, from what `stoker adopt` reads.
#include <algorithm>
#include <fmt/format.h>

#include "cli/init/detect.hpp"
#include "slurm/adopt.hpp"

namespace stoker::cli::init {
namespace {

class BatchDraft {
 public:
  BatchDraft(const slurm::AdoptedScript& script, const std::string& text)
      : script_(script), text_(text), lines_(slurm::directive_lines(text)) {
    draft_.source = "batch_script";
    draft_.path = script.path;
    draft_.launchers = script.launchers;
    draft_.notes = script.notes;
  }

  Draft make() {
    put_scheduler();
    put_train();
    put_files();
    return std::move(draft_);
  }

 private:
  // "#SBATCH --nodes, line 4" of the first that the script gives; "" = none of them.
  [[nodiscard]] std::string directive(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (const auto found = lines_.find(name); found != lines_.end())
        return fmt::format("#SBATCH --{}, line {}", name, found->second);
    return "";
  }

  // "--save, line 30": the option that said the key, and where it stands.
  [[nodiscard]] std::string option(const std::string& key) const {
    const auto said = script_.said_by.find(key);
    if (said == script_.said_by.end()) return "the script";
    std::string wanted = said->second;
    std::size_t number = 0;
    for (std::string_view rest = text_; !rest.empty();) {
      const auto end = std::min(rest.find('\n'), rest.size());
      std::string line(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      ++number;
      std::replace(line.begin(), line.end(), '_', '-');
      if (!line.starts_with("#") && line.find(wanted) != std::string::npos)
        return fmt::format("{}, line {}", said->second, number);
    }
    return said->second;
  }

  void put(std::string key, std::string value, const std::string& where,
           const std::string& otherwise) {
    draft_.put(std::move(key), std::move(value), where.empty() ? How::Assumed : How::Detected,
               where.empty() ? otherwise : where);
  }

  void put_scheduler() {
    put("run", yaml_text(script_.run), directive({"job-name"}), "the script's name");
    put("scheduler.kind", "slurm", lines_.empty() ? "" : "its #SBATCH lines", "a batch script");
    put("scheduler.nodes", fmt::format("{}", script_.nodes), directive({"nodes", "ntasks"}),
        "the script does not say how many");
    if (script_.gpus_per_node)
      put("scheduler.gpus_per_node", fmt::format("{}", *script_.gpus_per_node),
          directive({"gpus-per-task", "gpus-per-node", "gres"}), "");
    if (script_.time_limit)
      put("scheduler.time_limit", fmt::format("{}s", *script_.time_limit / 1s), directive({"time"}),
          "");
    put("scheduler.array", fmt::format("{{tasks: {}, top_up_below: 0}}", script_.array_tasks),
        directive({"array"}), "one job at a time, the next when it ends");
    if (!script_.exclude.empty())
      put("scheduler.exclude", yaml_list(script_.exclude), directive({"exclude"}), "");
  }

  void put_train() {
    draft_.put("train.batch_script", yaml_text(script_.path), How::Detected, "submitted as it is");
    put("train.ranks_per_node", fmt::format("{}", script_.ranks_per_node),
        directive({"ntasks-per-node", "gpus-per-task", "gpus-per-node", "gres"}),
        "one process a node");
    if (!script_.kill_switch.empty())
      put("train.kill_switch", yaml_text(script_.kill_switch), option("train.kill_switch"), "");
    if (!script_.save_signal.empty())
      put("train.save_signal", script_.save_signal, directive({"signal"}), "");
    if (script_.exit_before_limit)
      put("train.exit_before_limit", fmt::format("{}s", *script_.exit_before_limit / 1s),
          fmt::format("it leaves by itself after {} min", *script_.leaves_after / 1min), "");
    if (script_.last_iteration)
      put("train.finished", fmt::format("{{iteration: {}}}", *script_.last_iteration),
          option("train.finished"), "");
  }

  void put_files() {
    draft_.put("watch.logs", yaml_list(script_.logs), How::Detected,
               "where SLURM, tee, redirections and srun --output write");
    if (script_.checkpoints.empty()) return;
    put("checkpoints.directory", yaml_text(script_.checkpoints), option("checkpoints.directory"),
        "");
    if (!script_.checkpoint_format.empty())
      put("checkpoints.format", script_.checkpoint_format,
          script_.checkpoint_format == "deepspeed" ? "--save with --deepspeed" : "--save", "");
  }

  const slurm::AdoptedScript& script_;
  const std::string& text_;
  std::map<std::string, std::size_t> lines_;
  Draft draft_;
};

}  // namespace

Result<Draft> draft_of_batch_script(const Host& host, const std::string& path,
                                    const std::string& text) {
  STOKER_TRY(script, slurm::read_batch_script(text, path, host.environment));
  return BatchDraft(script, text).make();
}

}  // namespace stoker::cli::init
