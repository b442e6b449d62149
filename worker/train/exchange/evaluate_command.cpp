#include "worker/train/exchange/evaluate_command.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "common/os/files.hpp"
#include "configs/schema/train_schema.hpp"
#include "worker/train/checkpoint/audit.hpp"
#include "worker/train/comm/self_comm.hpp"
#include "worker/train/data/training_data.hpp"
#include "worker/train/exchange/checkpoint_parameters.hpp"
#include "worker/train/run/pin_numerics.hpp"
#include "worker/train/run/say.hpp"

namespace stoker::train {
namespace {

constexpr double kMostPerplexity = 20;  // its logarithm, as Megatron caps it

struct LossSum {
  double loss = 0;
  std::uint64_t samples = 0;
  void add(double one) {
    loss += one;
    ++samples;
  }
  [[nodiscard]] double mean() const { return loss / static_cast<double>(samples); }
};

struct Losses {
  std::vector<LossSum> of_source;
  LossSum blended;
};

int failed(ExitCode code, const Error& error) {
  complain(error);
  return static_cast<int>(code);
}

// The samples that the trainer's validation takes: of the batch at the run's end.
Result<std::uint64_t> samples_of(const recipe::TrainConfig& c) {
  STOKER_TRY(plan, recipe::BatchPlan::make(c.batch));
  const auto phases = plan.phases(c.train.samples);
  const std::uint64_t global = phases.empty() ? c.batch.global : phases.back().global;
  return c.evaluate.iterations * std::max<std::uint64_t>(1, global);
}

Result<TrainingData> open_validation(const recipe::TrainConfig& c, std::uint64_t samples) {
  return TrainingData::open(
      {c.data, c.model.sequence, c.model.vocabulary, samples, Split::Validation});
}

Result<Losses> measure(Model& model, const TrainingData& data, std::uint64_t samples) {
  Losses losses;
  losses.of_source.resize(data.sources());
  for (std::uint64_t id = 0; id < samples; ++id) {
    const std::uint64_t within = id % data.samples();
    STOKER_TRY(sample, data.sample(within));
    const MicroBatch batch{{id}, {sample.tokens.begin(), sample.tokens.end()}};
    Activation none;
    STOKER_TRY(loss, model.evaluate({}, batch, none, none));
    losses.of_source[sample.source].add(loss);
    losses.blended.add(loss);
  }
  return losses;
}

Json as_json(const std::string& name, const LossSum& sum) {
  return Json{{"data", name}, {"samples", sum.samples}, {"loss", sum.mean()}};
}

void tell_line(Iteration iteration, const std::string& name, const LossSum& sum) {
  say(
      fmt::format("{} loss at iteration {} | {} samples | lm loss value: {:.6E} | lm loss PPL: "
                  "{:.6E} |",
                  name, iteration.value, sum.samples, sum.mean(),
                  std::exp(std::min(kMostPerplexity, sum.mean()))));
}

void tell(const Losses& losses, const recipe::TrainConfig& c, Iteration iteration, bool json) {
  Json sets = Json::array();
  for (std::size_t i = 0; i < losses.of_source.size(); ++i) {
    if (losses.of_source[i].samples == 0) continue;
    const std::string& name = c.data.train[i].prefix;
    sets.push_back(as_json(name, losses.of_source[i]));
    if (!json) tell_line(iteration, name, losses.of_source[i]);
  }
  if (!json) return tell_line(iteration, "blended", losses.blended);
  Json document = as_json("blended", losses.blended);
  document["iteration"] = iteration.value;
  document["sets"] = sets;
  say_json(document);
}

}  // namespace

int run_evaluate(const EvaluateOptions& o, const Backend& backend) {
  const auto text = os::read_file(o.config, configs::kLargestYaml);
  if (!text) return failed(ExitCode::Configuration, text.error());
  const auto file = configs::read_train_config(*text, o.config);
  for (const auto& error : file.errors) complain(error.text());
  if (!file.errors.empty()) return static_cast<int>(ExitCode::Configuration);
  const recipe::TrainConfig& c = file.config;
  if (Status pinned = pin_numerics(c.train.numerics); !pinned)
    return failed(ExitCode::Configuration, pinned.error());
  const auto samples = samples_of(c);
  if (!samples) return failed(ExitCode::Configuration, samples.error());
  const auto data = open_validation(c, *samples);
  if (!data) return failed(ExitCode::Configuration, data.error());
  const auto from = CheckpointParameters::open(o.checkpoint);
  if (!from) return failed(ExitCode::CheckpointRefused, from.error());
  if (model_text(from->model()) != model_text(c.model))
    return failed(ExitCode::Configuration,
                  {fmt::format("the checkpoint's model is {}, that of {} is {}",
                               model_text(from->model()), o.config, model_text(c.model)),
                   o.checkpoint, "check model: in TRAIN.yaml"});
  auto state = from->load(c.train.dtype);
  if (!state) return failed(ExitCode::CheckpointRefused, state.error());
  backend.warm_up(c.train.threads);
  SelfComm alone;
  const auto model = backend.make_model(c.model, {c.train.seed, c.train.deadline}, *state, alone);
  const auto losses = measure(*model, *data, *samples);
  if (!losses) return failed(ExitCode::Failed, losses.error());
  tell(*losses, c, from->manifest().iteration, o.json);
  return 0;
}

}  // namespace stoker::train
