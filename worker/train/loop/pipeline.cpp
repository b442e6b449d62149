#include "worker/train/loop/pipeline.hpp"

#include <fmt/format.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"
#include "recipe/pipeline_plan.hpp"
#include "recipe/schedule/csv.hpp"
#include "recipe/schedule/generators.hpp"
#include "recipe/schedule/passes.hpp"
#include "worker/train/executor/executor.hpp"

namespace stoker::train {
namespace {

Result<recipe::PipelineSchedule> read_csv(const recipe::TrainConfig& config) {
  const std::string& file = config.parallel.schedule_file;
  STOKER_TRY(text, os::read_file(file, recipe::kLargestScheduleCsv));
  STOKER_TRY(csv, recipe::parse_schedule_csv(text, file));
  if (csv.ranks.size() != config.parallel.pipeline)
    return fail(fmt::format("has {} ranks, parallel.pipeline is {}", csv.ranks.size(),
                            config.parallel.pipeline),
                file);
  const auto split = recipe::split_layers(config.model.layers, csv.stages());
  if (!split) return fail(split.error().what, file);
  const std::uint32_t first = csv.rank_of_stage.front(), last = csv.rank_of_stage.back();
  if (first != 0 || (last != 0 && last + 1 != config.parallel.pipeline))
    return fail(
        "the first stage must be on the first rank, the last stage on the first or the "
        "last rank: they share the embedding",
        file);
  return csv;
}

}  // namespace

Result<Pipeline> Pipeline::open(const recipe::TrainConfig& config) {
  Pipeline pipeline;
  pipeline.config_ = config.parallel;
  if (config.parallel.schedule == recipe::ScheduleKind::Csv) {
    STOKER_TRY(csv, read_csv(config));
    const auto lowered = recipe::lower(csv, true);  // reported now, not in the first step
    if (!lowered) return fail(lowered.error());
    pipeline.rank_of_stage_ = csv.rank_of_stage;
    pipeline.csv_ = std::move(csv);
    return pipeline;
  }
  recipe::ScheduleShape shape = recipe::schedule_shape(config.parallel);
  shape.micro_batches = shape.ranks;  // a number that every kind can cut
  STOKER_TRY(schedule, recipe::make_schedule(shape));
  pipeline.rank_of_stage_ = schedule.rank_of_stage;
  return pipeline;
}

std::string Pipeline::order() const {
  // The norms' gradients are added up over the tokens of each tensor rank first.
  return stage_order() + (config_.sequence && config_.tensor > 1 ? ", sequence parallel" : "");
}

std::string Pipeline::stage_order() const {
  switch (config_.schedule) {
    case recipe::ScheduleKind::GPipe:
    case recipe::ScheduleKind::OneFOneB:
    case recipe::ScheduleKind::ZbH1: return "one stage a rank";
    case recipe::ScheduleKind::Interleaved:
      return fmt::format("interleaved with {} chunks", config_.virtual_stages);
    case recipe::ScheduleKind::ZbV: return "zb-v";
    case recipe::ScheduleKind::Csv: break;
  }
  std::string text;
  for (const auto& rank : csv_->ranks) {
    for (const auto& op : rank)
      text += fmt::format("{}.{}.{} ", static_cast<int>(op.kind), op.stage, op.micro_batch);
    text += '\n';
  }
  return "csv " + hex64(xxh3_64(text));
}

Status Pipeline::check(const std::vector<recipe::BatchPhase>& phases,
                       std::uint32_t data_parallel) const {
  const auto bad =
      recipe::illegal_micro_batches(config_, phases, data_parallel, csv_ ? &*csv_ : nullptr);
  if (bad) return fail(*bad, "parallel.schedule", "change the batch, or use schedule: 1f1b");
  return ok();
}

std::string Pipeline::fallback(const std::vector<recipe::BatchPhase>& phases, std::uint64_t from,
                               std::uint32_t data_parallel) const {
  std::vector<recipe::BatchPhase> ahead;
  for (std::size_t i = 0; i < phases.size(); ++i)
    if (i + 1 == phases.size() || phases[i + 1].consumed > from) ahead.push_back(phases[i]);
  return recipe::fallback_text(config_, ahead, data_parallel, csv_ ? &*csv_ : nullptr);
}

Result<const recipe::PipelineSchedule*> Pipeline::training(std::uint32_t micro_batches) {
  const auto found = training_.find(micro_batches);
  if (found != training_.end()) return &found->second;
  STOKER_TRY(schedule, compute_order(micro_batches));
  STOKER_TRY(lowered, recipe::lower(schedule, true));
  return &(training_[micro_batches] = std::move(lowered));
}

Result<recipe::PipelineSchedule> Pipeline::compute_order(std::uint32_t micro_batches) const {
  if (recipe::falls_back(config_, micro_batches, csv_ ? &*csv_ : nullptr))
    return recipe::one_f_one_b_on(rank_of_stage_, micro_batches);
  if (csv_) return *csv_;
  recipe::ScheduleShape shape = recipe::schedule_shape(config_);
  shape.micro_batches = micro_batches;
  return recipe::make_schedule(shape);
}

Result<const recipe::PipelineSchedule*> Pipeline::evaluation(std::uint32_t micro_batches) {
  const auto found = evaluation_.find(micro_batches);
  if (found != evaluation_.end()) return &found->second;
  STOKER_TRY(schedule, forward_only(rank_of_stage_, micro_batches));
  return &(evaluation_[micro_batches] = std::move(schedule));
}

Result<const recipe::PipelineSchedule*> Pipeline::replay() {
  if (!replay_) {
    STOKER_TRY(schedule, one_micro_batch(rank_of_stage_));
    replay_ = std::move(schedule);
  }
  return &*replay_;
}

}  // namespace stoker::train
