// Pipeline: the schedules of one training. How the stages lie on the ranks is the same in every
// step; the number of micro-batches follows the batch, and each number has its schedule.
#pragma once

#include <map>

#include "recipe/batch_plan.hpp"
#include "recipe/schedule/schedule.hpp"
#include "recipe/train_config.hpp"
#include "worker/train/comm/mesh.hpp"

namespace stoker::train {

class Pipeline {
 public:
  // Reads the CSV where the configuration names one. Errors: it does not fit the mesh or the model.
  static Result<Pipeline> open(const recipe::TrainConfig& config);

  [[nodiscard]] const std::vector<std::uint32_t>& rank_of_stage() const { return rank_of_stage_; }
  // Where the configuration names a file, else null.
  [[nodiscard]] const recipe::PipelineSchedule* csv() const { return csv_ ? &*csv_ : nullptr; }
  // In which order gradients and norms are added up: equal texts give equal bits on one mesh.
  [[nodiscard]] std::string order() const;
  // Error: the schedule cannot cut the last batch. Steps of a ramp-up that it cannot cut run in
  // 1F1B's order: fallback() says which, from `from` consumed samples on; "" = none.
  Status check(const std::vector<recipe::BatchPhase>& phases, std::uint32_t data_parallel) const;
  [[nodiscard]] std::string fallback(const std::vector<recipe::BatchPhase>& phases,
                                     std::uint64_t from, std::uint32_t data_parallel) const;
  // Lowered; kept.
  Result<const recipe::PipelineSchedule*> training(std::uint32_t micro_batches);
  Result<const recipe::PipelineSchedule*> evaluation(std::uint32_t micro_batches);
  Result<const recipe::PipelineSchedule*> replay();  // one micro-batch, without reductions

 private:
  [[nodiscard]] std::string stage_order() const;
  [[nodiscard]] Result<recipe::PipelineSchedule> compute_order(std::uint32_t micro_batches) const;

  recipe::ParallelConfig config_;
  std::vector<std::uint32_t> rank_of_stage_;
  std::optional<recipe::PipelineSchedule> csv_;
  std::map<std::uint32_t, recipe::PipelineSchedule> training_, evaluation_;
  std::optional<recipe::PipelineSchedule> replay_;
};

}  // namespace stoker::train
