#include "recipe/sequence_plan.hpp"

#include <cmath>
#include <fmt/format.h>

#include "recipe/plan.hpp"

namespace stoker::recipe {
namespace {

// The last iteration in [first, to] whose samples are as long as those of `first`.
std::uint64_t last_like(const TrainConfig& config, std::uint64_t first, std::uint64_t to) {
  const std::uint64_t length = sequence_at(config, Iteration(first));
  if (sequence_at(config, Iteration(to)) == length) return to;
  std::uint64_t same = first, other = to;
  while (other - same > 1) {
    const std::uint64_t middle = same + (other - same) / 2;
    (sequence_at(config, Iteration(middle)) == length ? same : other) = middle;
  }
  return same;
}

}  // namespace

std::uint64_t sequence_at(const TrainConfig& config, Iteration iteration) {
  const auto& curriculum = config.train.curriculum;
  return curriculum ? curriculum_length(*curriculum, iteration) : config.model.sequence;
}

std::vector<SequencePhase> sequence_phases(const TrainConfig& config, Iteration from,
                                           Iteration to) {
  std::vector<SequencePhase> phases;
  for (std::uint64_t done = from.value; done < to.value;) {
    const std::uint64_t last = last_like(config, done + 1, to.value);
    phases.push_back({done, last - done, sequence_at(config, Iteration(last))});
    done = last;
  }
  return phases;
}

std::uint64_t tokens_after(const TrainConfig& config, const BatchPlan& batches, Iteration done,
                           std::uint64_t consumed) {
  if (!config.train.curriculum) return consumed * config.model.sequence;
  std::uint64_t tokens = 0, before = 0;
  for (const SequencePhase& phase : sequence_phases(config, Iteration(0), done)) {
    const std::uint64_t end = phase.first_iteration + phase.iterations;
    const std::uint64_t after =
        end == done.value ? consumed : batches.consumed_after(Iteration(end));
    tokens += (after - before) * phase.sequence;
    before = after;
  }
  return tokens;
}

double work_share(const TrainConfig& config, std::uint64_t sequence) {
  FlopsShape shape = flops_shape(config.model, config.train.recompute);
  const double whole = step_flops(FlopsConvention::Model, shape, 1);
  shape.sequence = sequence;
  return whole > 0 ? step_flops(FlopsConvention::Model, shape, 1) / whole : 1;
}

std::uint64_t full_samples(const TrainConfig& config, const BatchPlan& batches, Iteration from,
                           Iteration to) {
  std::uint64_t samples = 0, before = batches.consumed_after(from);
  for (const SequencePhase& phase : sequence_phases(config, from, to)) {
    const std::uint64_t after =
        batches.consumed_after(Iteration(phase.first_iteration + phase.iterations));
    const std::uint64_t count = after - before;
    samples += phase.sequence == config.model.sequence
                   ? count
                   : static_cast<std::uint64_t>(std::llround(static_cast<double>(count) *
                                                             work_share(config, phase.sequence)));
    before = after;
  }
  return samples;
}

std::string curriculum_text(const TrainConfig& config) {
  const auto& c = config.train.curriculum;
  if (!c) return "none";
  return fmt::format("{} {} to {} over {} iterations, in steps of {}", name_of(c->kind), c->min,
                     c->max, c->total, c->step);
}

}  // namespace stoker::recipe
