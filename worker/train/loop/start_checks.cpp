#include "worker/train/loop/start_checks.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace stoker::train {
namespace {

Result<TrainingData> open_split(const recipe::TrainConfig& c, Split split, std::uint64_t samples) {
  return TrainingData::open({c.data, c.model.sequence, c.model.vocabulary, samples, split});
}

std::string at_place(const std::string& path, const configs::Position& place, const Error& error) {
  return place.line == 0
             ? fmt::format("{}: error: {}", path, error.message())
             : fmt::format("{}:{}:{}: error: {}", path, place.line, place.column, error.message());
}

}  // namespace

Result<InputData> open_input(const recipe::TrainConfig& c) {
  STOKER_TRY(train, open_split(c, Split::Train, c.train.samples));
  InputData data{std::move(train), std::nullopt};
  if (c.evaluate.every == 0) return data;
  STOKER_TRY(validation,
             open_split(c, Split::Validation,
                        c.evaluate.iterations * std::max<std::uint64_t>(1, c.batch.global)));
  data.validation.emplace(std::move(validation));
  return data;
}

bool is_current(const InputData& data) {
  return data.train.is_current() && (!data.validation || data.validation->is_current());
}

Result<Mesh> mesh_of(const recipe::TrainConfig& c, std::uint32_t world) {
  const std::uint64_t replica = std::uint64_t{c.parallel.tensor} * c.parallel.pipeline;
  if (world == 0 || world % replica != 0)
    return fail(fmt::format("{} ranks do not split into groups of {} (tensor {} x pipeline {})",
                            world, replica, c.parallel.tensor, c.parallel.pipeline),
                "parallel", fmt::format("start a multiple of {} ranks", replica));
  return Mesh{c.parallel.tensor, c.parallel.pipeline, static_cast<std::uint32_t>(world / replica)};
}

Status check_batches(const recipe::TrainConfig& c, const Pipeline& pipeline, const Mesh& mesh,
                     std::uint64_t ranks_per_node, std::optional<std::uint64_t> from) {
  STOKER_TRY(plan, recipe::BatchPlan::make(c.batch));
  const auto phases = plan.phases(c.train.samples);
  if (!from) from = phases.empty() ? 0 : phases.back().consumed;
  if (ranks_per_node == 0 || mesh.world() % ranks_per_node != 0) ranks_per_node = 1;
  STOKER_TRY_STATUS(recipe::check_batch(plan, c.train.samples, mesh.world() / ranks_per_node,
                                        {ranks_per_node, std::uint64_t{mesh.tp} * mesh.pp}, *from));
  return pipeline.check(phases, mesh.dp);
}

std::string refusal(const configs::TrainConfigFile& file, const std::string& path,
                    const std::vector<std::vector<std::string>>& keys, const Error& error) {
  for (const auto& key : keys)
    for (const configs::EffectiveValue& value : file.values)
      if (value.at.line > 0 && value.path.size() >= key.size() &&
          std::equal(key.begin(), key.end(), value.path.begin()))
        return at_place(path, value.at, error);
  return at_place(path, {}, error);
}

std::string mesh_refusal(const configs::TrainConfigFile& file, const std::string& path,
                         const Error& error) {
  return refusal(file, path, {{"parallel", "tensor"}, {"parallel", "pipeline"}}, error);
}

std::string batch_refusal(const configs::TrainConfigFile& file, const std::string& path,
                          const Error& error) {
  return at_place(path, file.batch_at, error);
}

}  // namespace stoker::train
