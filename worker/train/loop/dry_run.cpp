#include "worker/train/loop/dry_run.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "watch/checkpoint_scan.hpp"
#include "worker/train/checkpoint/audit.hpp"
#include "worker/train/checkpoint/load.hpp"
#include "worker/train/loop/dry_run_table.hpp"
#include "worker/train/loop/start_checks.hpp"
#include "worker/train/run/say.hpp"

namespace stoker::train {
namespace {

std::string saved_data(const Json& training) {
  if (!training.is_object()) return "";
  const auto found = training.find("data");
  return found != training.end() && found->is_string() ? found->get<std::string>() : "";
}

class DryStart {
 public:
  explicit DryStart(const DryRunOptions& options) : o_(options) {}

  DryRun run() {
    if (!read()) return std::move(run_);
    check_input();
    check_directory();
    const bool placed = place();
    if (placed) resume();
    if (placed && run_.refusals.empty()) walk();
    return std::move(run_);
  }

 private:
  [[nodiscard]] const recipe::TrainConfig& config() const { return file_.config; }

  // The first refusal is the one that a start would end with.
  void refuse(ExitCode code, std::string line) {
    if (run_.refusals.empty()) run_.code = code;
    run_.refusals.push_back(std::move(line));
  }
  void refuse_at(const std::vector<std::vector<std::string>>& keys, const Error& error) {
    refuse(ExitCode::Configuration, refusal(file_, o_.config, keys, error));
  }

  bool read() {
    auto file = configs::load_train_config(o_.config);
    if (!file) {
      refuse(ExitCode::Configuration, "error: " + file.error().message());
      return false;
    }
    file_ = std::move(*file);
    for (const auto& error : file_.errors) refuse(ExitCode::Configuration, error.text());
    return file_.errors.empty();
  }

  void check_input() {
    if (o_.without_data) return;
    const auto data = open_input(config());
    if (!data) return refuse_at({{"data", "train"}, {"data"}}, data.error());
    for (const Error& problem : data->train.problems()) run_.warnings.push_back(problem.message());
    digest_ = data->train.digest();
    facts_.data = fmt::format("{} samples of {} data set{}", data->train.samples(),
                              data->train.sources(), data->train.sources() == 1 ? "" : "s");
  }

  // Nothing is created: the nearest folder that is there must let us.
  void check_directory() {
    namespace fs = std::filesystem;
    std::error_code failed;
    fs::path at = fs::absolute(config().checkpoint.directory, failed);
    while (!at.empty() && at != at.parent_path() && !fs::exists(at, failed)) at = at.parent_path();
    if (fs::is_directory(at, failed) && ::access(at.c_str(), W_OK | X_OK) == 0) return;
    refuse_at({{"checkpoint", "directory"}, {"checkpoint"}},
              {"checkpoints cannot be saved: no writable folder", at.string(),
               "make it writable, or name another checkpoint.directory"});
  }

  // Pipeline and mesh. False: there is no mesh to go on with.
  bool place() {
    auto pipeline = Pipeline::open(config());
    if (!pipeline)
      refuse_at({{"parallel", "schedule"}, {"parallel"}}, pipeline.error());
    else
      pipeline_.emplace(std::move(*pipeline));
    const std::uint32_t ranks =
        o_.ranks > 0 ? o_.ranks : config().parallel.tensor * config().parallel.pipeline;
    const auto mesh = mesh_of(config(), ranks);
    if (!mesh)
      refuse(ExitCode::Configuration, mesh_refusal(file_, o_.config, mesh.error()));
    else
      facts_.mesh = *mesh;
    facts_.ranks_per_node = o_.ranks_per_node > 0 ? o_.ranks_per_node : ranks;
    return mesh && pipeline_;
  }

  // Where the start would begin, and whether the batches from there on can be cut.
  void resume() {
    const auto scan =
        watch::scan_checkpoints(config().checkpoint.directory, std::nullopt, watch::Depth::Sizes);
    if (!scan) return refuse(ExitCode::CheckpointRefused, "error: " + scan.error().message());
    for (const auto& damaged : scan->damaged)
      run_.warnings.push_back(fmt::format("damaged checkpoint {}: {}", damaged.name, damaged.why));
    if (scan->newest)
      audit(*scan->newest);
    else if (scan->ours_damaged)
      refuse(ExitCode::CheckpointRefused, fmt::format("error: every checkpoint in {} is damaged",
                                                      config().checkpoint.directory));
    else
      facts_.begins =
          fmt::format("at sample 0: no checkpoint in {}", config().checkpoint.directory);
    const Status legal =
        check_batches(config(), *pipeline_, facts_.mesh, facts_.ranks_per_node, from_);
    if (!legal) refuse(ExitCode::Configuration, batch_refusal(file_, o_.config, legal.error()));
  }

  // Against what is known here: not the CPUs and libraries of the nodes, and without the data not
  // its digest.
  void audit(const watch::FoundCheckpoint& found) {
    const auto position = position_of(found.manifest);
    if (!position)
      return refuse(ExitCode::CheckpointRefused, "error: " + position.error().message());
    from_ = position->consumed_samples;
    facts_.begins = fmt::format("at sample {}: {}", from_, found.path);
    const std::string saved = saved_data(found.manifest.training);
    const AuditFacts now{config(), digest_.value_or(std::strtoull(saved.c_str(), nullptr, 16)),
                         facts_.mesh, found.manifest.numerics, pipeline_->order()};
    const auto audit = audit_resume(found.name, found.manifest, *position, now, o_.accepted);
    facts_.guarantee = audit.guarantee;
    if (!audit.passed) refuse(ExitCode::CheckpointRefused, "error: " + audit_line(audit));
  }

  void walk() {
    const auto plan = recipe::BatchPlan::make(config().batch);
    if (!plan) return refuse(ExitCode::Configuration, "error: " + plan.error().message());
    auto phases = plan->phases(config().train.samples);
    std::erase_if(phases, [&](const recipe::BatchPhase& phase) {
      return phase.consumed + phase.iterations * phase.global <= from_;
    });
    if (phases.empty()) {
      facts_.begins += "; nothing is left to train";
      run_.table = dry_run_table(config(), facts_, nullptr, nullptr);
      return;
    }
    facts_.fallback = pipeline_->fallback(phases, from_, facts_.mesh.dp);
    const auto predicted =
        recipe::plan_pipeline(config(), phases, facts_.mesh.dp, pipeline_->csv());
    if (!predicted) return refuse_at({{"parallel"}}, predicted.error());
    const ModelLayout layout{config().model, facts_.mesh, pipeline_->rank_of_stage()};
    const auto walked = walk_mesh(config(), layout, *pipeline_, phases, *predicted);
    if (!walked) return refuse_at({{"parallel", "schedule"}, {"parallel"}}, walked.error());
    run_.table = dry_run_table(config(), facts_, &*walked, &*predicted);
  }

  const DryRunOptions& o_;
  DryRun run_;
  configs::TrainConfigFile file_;
  std::optional<Pipeline> pipeline_;
  std::optional<std::uint64_t> digest_;
  std::uint64_t from_ = 0;
  DryFacts facts_;
};

}  // namespace

DryRun dry_run(const DryRunOptions& options) {
  return DryStart(options).run();
}

ExitCode run_dry(const DryRunOptions& options) {
  DryRun run = dry_run(options);
  for (const std::string& warning : run.warnings) complain("warning: " + warning);
  for (const std::string& line : run.refusals) complain(line);
  if (!run.table.empty()) {
    run.table.pop_back();  // say() ends the line
    say(run.table);
  }
  return run.code;
}

}  // namespace stoker::train
