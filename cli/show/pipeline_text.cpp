#include "cli/show/pipeline_text.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

#include "cli/show/render_status.hpp"
#include "common/os/files.hpp"
#include "common/size_text.hpp"
#include "recipe/schedule/csv.hpp"
#include "recipe/schedule/validate.hpp"

namespace stoker::cli {
namespace {

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f} %", 100 * *share) : "unknown";
}

std::string schedule_name(const recipe::ParallelConfig& parallel) {
  return parallel.schedule == recipe::ScheduleKind::Csv ? parallel.schedule_file
                                                        : std::string(name_of(parallel.schedule));
}

std::string stage_text(const recipe::StagePlan& rank) {
  return fmt::format("{} layer{}, {:.6g} in flight, {} ({})", rank.layers,
                     rank.layers == 1 ? "" : "s", rank.in_flight, size_text(rank.memory.total()),
                     memory_parts(rank.memory));
}

void add_pipeline_rows(const recipe::PipelinePlan& pipeline, std::vector<PlanRow>& rows) {
  const auto [least, most] = std::minmax_element(
      pipeline.phases.begin(), pipeline.phases.end(),
      [](const auto& a, const auto& b) { return a.micro_batches < b.micro_batches; });
  const recipe::PipelinePhase& full = pipeline.phases.back();
  std::string bubble = fmt::format("{} with {} micro-batches, the full batch", percent(full.bubble),
                                   full.micro_batches);
  if (least->micro_batches != full.micro_batches)
    bubble += fmt::format("; {} with {}, from iteration {}", percent(least->bubble),
                          least->micro_batches, with_commas(least->batch.first_iteration + 1));
  if (most->micro_batches > full.micro_batches)
    bubble += fmt::format("; {} with {}, from iteration {}", percent(most->bubble),
                          most->micro_batches, with_commas(most->batch.first_iteration + 1));
  rows.emplace_back("pipeline bubble", bubble + " (F = I = W)");
  std::uint64_t others = 0;
  for (const recipe::PipelinePhase& phase : pipeline.phases)
    if (phase.falls_back) others += phase.batch.iterations;
  if (others > 0)
    rows.emplace_back("in 1F1B's order",
                      fmt::format("{} iterations of the ramp-up, whose micro-batches "
                                  "the schedule cannot cut",
                                  with_commas(others)));
  constexpr std::size_t kAll = 8, kShown = 3;
  const std::size_t ranks = pipeline.ranks.size();
  for (std::size_t r = 0; r < ranks; ++r)
    if (ranks <= kAll || r < kShown || r + 1 == ranks)
      rows.emplace_back(fmt::format("pipeline rank {}", r), stage_text(pipeline.ranks[r]));
}

Json pipeline_json(const recipe::PipelinePlan& pipeline) {
  Json phases = Json::array(), ranks = Json::array();
  for (const recipe::PipelinePhase& phase : pipeline.phases)
    phases.push_back({{"iteration", phase.batch.first_iteration},
                      {"consumed_samples", phase.batch.consumed},
                      {"global_batch_size", phase.batch.global},
                      {"micro_batch_size", phase.batch.micro},
                      {"micro_batches", phase.micro_batches},
                      {"falls_back", phase.falls_back},
                      {"bubble", phase.bubble ? Json(*phase.bubble) : Json()}});
  for (const recipe::StagePlan& rank : pipeline.ranks)
    ranks.push_back({{"layers", rank.layers},
                     {"in_flight", rank.in_flight},
                     {"model_state_bytes", rank.memory.model_state},
                     {"activation_bytes", rank.memory.activations},
                     {"runtime_bytes", rank.memory.runtime},
                     {"total_bytes", rank.memory.total()}});
  return {{"phases", phases}, {"ranks", ranks}};
}

}  // namespace

std::string memory_parts(const recipe::MemoryEstimate& memory) {
  const std::string parts =
      fmt::format("{} model state, {} activations", size_text(memory.model_state),
                  size_text(memory.activations));
  return memory.runtime > 0 ? fmt::format("{}, {} CUDA's own", parts, size_text(memory.runtime))
                            : parts;
}

std::vector<PlanRow> mesh_rows(const recipe::TrainConfig& config, const recipe::Plan& plan) {
  const recipe::ParallelConfig& p = config.parallel;
  const std::uint64_t replica = std::uint64_t{p.tensor} * p.pipeline;
  std::vector<PlanRow> rows;
  if (replica == 1) return rows;
  const std::uint32_t chunks = recipe::schedule_shape(p).chunks;
  rows.emplace_back("mesh", fmt::format("tensor {} x pipeline {} ({}{}) x data {}", p.tensor,
                                        p.pipeline, schedule_name(p),
                                        chunks > 1 ? fmt::format(", {} chunks a rank", chunks) : "",
                                        plan.data_parallel));
  rows.emplace_back(
      "a replica",
      fmt::format("{} GPUs, {} GB model state without ZeRO ({:.0f} B a parameter)", replica,
                  with_commas((plan.replica_bytes + 500'000'000) / 1'000'000'000),
                  plan.parameters > 0 ? static_cast<double>(plan.replica_bytes) /
                                            static_cast<double>(plan.parameters)
                                      : 0));
  if (plan.pipeline && !plan.pipeline->phases.empty()) add_pipeline_rows(*plan.pipeline, rows);
  return rows;
}

Json mesh_json(const recipe::TrainConfig& config, const recipe::Plan& plan) {
  const recipe::ParallelConfig& p = config.parallel;
  return {{"tensor", p.tensor},
          {"pipeline", p.pipeline},
          {"data", plan.data_parallel},
          {"schedule", schedule_name(p)},
          {"virtual_stages", recipe::schedule_shape(p).chunks},
          {"replica_ranks", std::uint64_t{p.tensor} * p.pipeline},
          {"replica_bytes", plan.replica_bytes},
          {"stages", plan.pipeline ? pipeline_json(*plan.pipeline) : Json()}};
}

Result<std::optional<recipe::PipelineSchedule>> read_schedule_file(const configs::CheckedRun& run) {
  if (!run.train || run.train->config.parallel.schedule != recipe::ScheduleKind::Csv)
    return std::optional<recipe::PipelineSchedule>();
  const std::filesystem::path name = run.train->config.parallel.schedule_file;
  const auto inside = (run.file.policy.directory / name).string();
  const auto beside = (std::filesystem::path(run.train_path).parent_path() / name).string();
  const std::string& path = os::exists(inside) ? inside : beside;
  STOKER_TRY(text, os::read_file(path, recipe::kLargestScheduleCsv));
  STOKER_TRY(schedule, recipe::parse_schedule_csv(text, path));
  STOKER_TRY_STATUS(recipe::validate(schedule));
  return std::optional(std::move(schedule));
}

}  // namespace stoker::cli
