#include "recipe/forecast.hpp"

#include <algorithm>
#include <cmath>

#include "recipe/batch_plan.hpp"

namespace stoker::recipe {
namespace {

constexpr std::size_t kMostSteps = 64;
constexpr double kNarrowest = 0.05;  // no forecast is better than this
constexpr double kLeastBeside = 0.85;
constexpr double kMostBeside = 2;      // evaluations and stalls at most double the iterations
constexpr double kEnoughSeconds = 10;  // of training, before it shows what comes beside iterations
constexpr std::uint64_t kEnough = 20;  // iterations
constexpr double kFarthest = 9e9;      // beyond what a Duration holds: no answer

struct Stretch {
  std::uint64_t from = 0, to = 0;  // iterations
};

// Iterations of the stretch, each weighed by its time as a multiple of one now. `grows`: how much
// of an iteration's time grows with its samples, 0 to 1.
double weight(const ForecastInput& in, Stretch stretch, double now, double grows) {
  double sum = 0;
  std::uint64_t at = stretch.from, begin = 0;
  for (const PlannedBatch& step : in.batches) {
    const std::uint64_t end = begin + step.iterations;
    const std::uint64_t until = std::min(end, stretch.to);
    if (until > at) {
      sum += static_cast<double>(until - at) * (1 + grows * (step.samples / now - 1));
      at = until;
    }
    begin = end;
  }
  const double last = in.batches.empty() ? now : in.batches.back().samples;
  if (stretch.to > at) sum += static_cast<double>(stretch.to - at) * (1 + grows * (last / now - 1));
  return sum;
}

double batch_at(const ForecastInput& in) {
  std::uint64_t end = 0;
  for (const PlannedBatch& step : in.batches)
    if ((end += step.iterations) > in.done) return std::max(step.samples, 1.0);
  return in.batches.empty() ? 1.0 : std::max(in.batches.back().samples, 1.0);
}

// What comes beside the iterations, as a multiple of them. A little less than one: the usual
// iteration is a bucket's upper bound. Far less: the run went on from iterations of another one.
double beside(const ForecastInput& in, double now) {
  if (in.done < kEnough || in.trained_s < kEnoughSeconds) return 1;
  const double iterations = in.step_s * weight(in, {0, in.done}, now, 0.5);
  const double share = iterations > 0 ? in.trained_s / iterations : 1;
  return share < kLeastBeside ? 1 : std::min(share, kMostBeside);
}

// `luck`: 0 = no failures, no queue; 1 = as so far; 2 = twice that.
Forecast add_up(const ForecastInput& in, double iterations_s, double luck) {
  Forecast f;
  f.iterations_s = iterations_s;
  f.saves_s = iterations_s * in.save_share;
  const double work = f.iterations_s + f.saves_s;
  if (in.between_failures_s > 0)
    f.failures_s = luck * work / in.between_failures_s * (in.start_s + in.lost_s);
  const double needed = work + f.failures_s - in.task_left_s;
  if (in.task_s > 0 && needed > 0) {
    const double usable = std::max(in.task_s - in.start_s, in.task_s / 10);
    const double tasks = std::min(std::ceil(needed / usable), 1e9);
    f.tasks = static_cast<std::uint64_t>(tasks);
    f.waits_s = tasks * (in.start_s + luck * in.queue_s);
  }
  f.left_s = work + f.failures_s + f.waits_s;
  return f;
}

}  // namespace

std::vector<PlannedBatch> batch_steps(const BatchPlan& plan, std::uint64_t train_samples) {
  std::vector<PlannedBatch> steps;
  for (const BatchPhase& phase : plan.phases(train_samples))
    steps.push_back({phase.iterations, static_cast<double>(phase.global)});
  while (steps.size() > kMostSteps) {  // two neighbours become one of their mean size
    std::vector<PlannedBatch> fewer;
    for (std::size_t i = 0; i < steps.size(); i += 2) {
      PlannedBatch step = steps[i];
      if (i + 1 < steps.size()) {
        const PlannedBatch& next = steps[i + 1];
        const double samples = static_cast<double>(step.iterations) * step.samples +
                               static_cast<double>(next.iterations) * next.samples;
        step.iterations += next.iterations;
        if (step.iterations > 0) step.samples = samples / static_cast<double>(step.iterations);
      }
      fewer.push_back(step);
    }
    steps = std::move(fewer);
  }
  return steps;
}

std::optional<Forecast> forecast(const ForecastInput& in) {
  if (in.total <= in.done || !(in.step_s > 0) || !std::isfinite(in.step_s)) return std::nullopt;
  const double now = batch_at(in), more = beside(in, now);
  const Stretch left{in.done, in.total};
  const double usual = more * weight(in, left, now, 1);
  const double slight = more * weight(in, left, now, 0.5);  // half of an iteration does not grow
  const double fast = in.step_low_s > 0 ? std::min(in.step_s, in.step_low_s) : in.step_s;
  Forecast f = add_up(in, in.step_s * usual, 1);
  f.low_s = add_up(in, fast * std::min(usual, slight), 0).left_s;
  f.high_s = add_up(in, std::max(in.step_s, in.step_high_s) * std::max(usual, slight), 2).left_s;
  f.low_s = std::min(f.low_s, f.left_s * (1 - kNarrowest));
  f.high_s = std::max(f.high_s, f.left_s * (1 + kNarrowest));
  if (!(f.high_s < kFarthest)) return std::nullopt;
  return f;
}

}  // namespace stoker::recipe
