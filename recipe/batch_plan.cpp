// Phases are found by jumping to the next change, not by walking iterations: a plan of 10^15
// samples is as quick as a small one.
#include "recipe/batch_plan.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <numeric>

namespace stoker::recipe {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMaxRampSteps = 100000;
constexpr std::uint64_t kMaxSamples = 1'000'000'000'000'000;  // doubles count exactly far beyond it
constexpr std::uint64_t kMaxBatch = 1'000'000'000;

Status check_micro(const std::vector<MicroStep>& micro) {
  if (micro.empty()) return fail("the list of micro-batches is empty");
  for (std::size_t i = 0; i < micro.size(); ++i) {
    const bool last = i + 1 == micro.size();
    if (micro[i].micro == 0 || micro[i].micro > kMaxBatch)
      return fail(fmt::format("micro-batch {} is not between 1 and {}", micro[i].micro, kMaxBatch));
    if (last == micro[i].until_samples.has_value())
      return fail("every micro-batch but the last needs until_samples, and the last has none");
    if (i > 0 && !last && *micro[i].until_samples <= *micro[i - 1].until_samples)
      return fail("until_samples of the micro-batches must grow");
  }
  return ok();
}

Status check_ramp(const RampUp& ramp, std::uint64_t global) {
  if (ramp.start == 0) return fail("ramp_up.start must be at least 1");
  if (ramp.start > global)
    return fail(fmt::format("ramp_up.start {} is above the global batch {}", ramp.start, global));
  if (ramp.samples == 0 || ramp.samples > kMaxSamples)
    return fail(fmt::format("ramp_up.samples must be between 1 and {}", kMaxSamples));
  if (ramp.start == global) return ok();
  if (ramp.increment == 0) return fail("ramp_up.increment must be at least 1");
  const std::uint64_t rise = global - ramp.start;
  if (rise % ramp.increment != 0)
    return fail(fmt::format("the ramp-up from {} in steps of {} never meets the global batch {}",
                            ramp.start, ramp.increment, global));
  if (rise / ramp.increment > kMaxRampSteps)
    return fail(fmt::format("a ramp-up of more than {} steps", kMaxRampSteps));
  return ok();
}

Status check_steps(const std::vector<BatchStep>& steps, std::uint64_t global) {
  if (steps.front().from_samples != 0) return fail("the first step must begin at 0 samples");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].global == 0 || steps[i].global > kMaxBatch)
      return fail(fmt::format("step {}: a global batch of {}", i + 1, steps[i].global));
    if (i > 0 && steps[i].from_samples <= steps[i - 1].from_samples)
      return fail(fmt::format("step {} does not begin after step {}", i + 1, i));
  }
  if (steps.back().global != global)
    return fail(fmt::format("the last step's batch {} is not the global batch {}",
                            steps.back().global, global));
  return ok();
}

}  // namespace

Result<std::vector<BatchStep>> parse_batch_steps(std::string_view text) {
  std::vector<BatchStep> steps;
  const auto bad = [&] {
    return fail(fmt::format("expected a schedule like \"0:768 250M:1536\", got \"{}\"", text));
  };
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto space = std::min(rest.find(' '), rest.size());
    std::string_view item = rest.substr(0, space);
    rest.remove_prefix(std::min(space + 1, rest.size()));
    if (item.empty()) continue;
    const auto colon = item.find(':');
    if (colon == std::string_view::npos || steps.size() >= 1000) return bad();
    BatchStep step;
    double threshold = 0;
    const char* end = item.data() + colon;
    auto parsed = std::from_chars(item.data(), end, threshold, std::chars_format::fixed);
    const std::string_view suffix(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
    if (parsed.ec != std::errc{} || suffix.size() > 1) return bad();
    if (!suffix.empty()) {
      constexpr std::string_view kSuffixes = "KMBT";
      const auto power = kSuffixes.find(suffix[0]);
      if (power == std::string_view::npos) return bad();
      for (std::size_t i = 0; i <= power; ++i) threshold *= 1000;
    }
    if (!(threshold >= 0) || threshold > static_cast<double>(kMaxSamples)) return bad();
    step.from_samples = static_cast<std::uint64_t>(threshold);
    const char* last = item.data() + item.size();
    parsed = std::from_chars(end + 1, last, step.global);
    if (parsed.ec != std::errc{} || parsed.ptr != last) return bad();
    steps.push_back(step);
  }
  if (steps.empty()) return bad();
  return steps;
}

std::string IllegalBatch::text() const {
  return fmt::format(
      "global batch {} at iteration {} ({} consumed samples) is not a multiple of micro-batch {} x "
      "{} data-parallel ranks = {}",
      phase.global, phase.first_iteration + 1, phase.consumed, phase.micro, data_parallel,
      phase.micro * data_parallel);
}

Result<BatchPlan> BatchPlan::make(const BatchConfig& config) {
  if (config.global == 0 || config.global > kMaxBatch)
    return fail(fmt::format("the global batch must be between 1 and {}", kMaxBatch));
  STOKER_TRY_STATUS(check_micro(config.micro));
  if (config.ramp_up && !config.steps.empty()) return fail("ramp_up and steps exclude each other");
  BatchPlan plan;
  plan.config_ = config;
  if (config.ramp_up) {
    STOKER_TRY_STATUS(check_ramp(*config.ramp_up, config.global));
    if (config.ramp_up->start == config.global) {
      plan.config_.ramp_up.reset();
    } else {
      const auto steps = (config.global - config.ramp_up->start) / config.ramp_up->increment;
      plan.samples_per_increment_ =
          static_cast<double>(config.ramp_up->samples) / static_cast<double>(steps);
    }
  }
  if (!config.steps.empty()) STOKER_TRY_STATUS(check_steps(config.steps, config.global));
  return plan;
}

std::uint64_t BatchPlan::global_batch(std::uint64_t consumed) const {
  if (config_.ramp_up) {
    const RampUp& ramp = *config_.ramp_up;
    if (consumed > ramp.samples) return config_.global;
    const auto steps =
        static_cast<std::uint64_t>(static_cast<double>(consumed) / samples_per_increment_);
    return std::min(ramp.start + steps * ramp.increment, config_.global);
  }
  std::uint64_t global = config_.steps.empty() ? config_.global : config_.steps.front().global;
  for (const BatchStep& step : config_.steps)
    if (consumed >= step.from_samples) global = step.global;
  return global;
}

std::uint64_t BatchPlan::micro_batch(std::uint64_t consumed) const {
  for (const MicroStep& step : config_.micro)
    if (!step.until_samples || consumed < *step.until_samples) return step.micro;
  return config_.micro.back().micro;
}

// The smallest number of consumed samples above `consumed` where a size changes.
std::uint64_t BatchPlan::next_change(std::uint64_t consumed) const {
  std::uint64_t next = kNever;
  for (const MicroStep& step : config_.micro)
    if (step.until_samples && *step.until_samples > consumed)
      next = std::min(next, *step.until_samples);
  for (const BatchStep& step : config_.steps)
    if (step.from_samples > consumed) next = std::min(next, step.from_samples);
  if (config_.ramp_up && consumed <= config_.ramp_up->samples) {
    const std::uint64_t now = global_batch(consumed);
    std::uint64_t low = consumed;  // same size as now
    std::uint64_t high = config_.ramp_up->samples + 1;
    if (global_batch(high) == now) return next;
    while (high - low > 1) {
      const std::uint64_t middle = low + (high - low) / 2;
      (global_batch(middle) == now ? low : high) = middle;
    }
    next = std::min(next, high);
  }
  return next;
}

template <class Visit>
void BatchPlan::walk(Visit visit) const {
  BatchPhase phase;
  while (true) {
    phase.global = global_batch(phase.consumed);
    phase.micro = micro_batch(phase.consumed);
    const std::uint64_t change = next_change(phase.consumed);
    phase.iterations =
        change == kNever ? kNever : (change - phase.consumed + phase.global - 1) / phase.global;
    if (!visit(phase) || change == kNever) return;
    phase.consumed += phase.iterations * phase.global;
    phase.first_iteration += phase.iterations;
  }
}

std::vector<BatchPhase> BatchPlan::phases(std::uint64_t train_samples) const {
  std::vector<BatchPhase> result;
  walk([&](BatchPhase phase) {
    if (phase.consumed >= train_samples) return false;
    const std::uint64_t fit = (train_samples - phase.consumed) / phase.global;
    const bool last = fit < phase.iterations;
    phase.iterations = std::min(phase.iterations, fit);
    const bool same = !result.empty() && result.back().global == phase.global &&
                      result.back().micro == phase.micro;
    if (same) {
      result.back().iterations += phase.iterations;
    } else if (phase.iterations > 0) {
      result.push_back(phase);
    }
    return !last;
  });
  return result;
}

std::uint64_t BatchPlan::train_iterations(std::uint64_t train_samples) const {
  const auto all = phases(train_samples);
  return all.empty() ? 0 : all.back().first_iteration + all.back().iterations;
}

std::uint64_t BatchPlan::consumed_after(Iteration iteration) const {
  std::uint64_t consumed = 0;
  walk([&](const BatchPhase& phase) {
    const std::uint64_t left = iteration.value - phase.first_iteration;
    consumed = phase.consumed + std::min(left, phase.iterations) * phase.global;
    return left > phase.iterations;
  });
  return consumed;
}

std::optional<Iteration> BatchPlan::iteration_at(std::uint64_t consumed) const {
  std::optional<Iteration> found;
  walk([&](const BatchPhase& phase) {
    if (consumed < phase.consumed) return false;
    const std::uint64_t inside = consumed - phase.consumed;
    if (inside % phase.global == 0 && inside / phase.global <= phase.iterations)
      found = Iteration(phase.first_iteration + inside / phase.global);
    return !found.has_value();
  });
  return found;
}

namespace {
bool is_behind(const BatchPhase& phase, std::uint64_t consumed) {
  return phase.consumed + phase.iterations * phase.global <= consumed;
}
}  // namespace

std::optional<IllegalBatch> BatchPlan::first_illegal(std::uint64_t data_parallel,
                                                     std::uint64_t from, std::uint64_t to) const {
  for (const BatchPhase& phase : phases(to)) {
    if (!is_behind(phase, from) && (data_parallel == 0 || phase.global % phase.micro != 0 ||
                                    (phase.global / phase.micro) % data_parallel != 0))
      return IllegalBatch{phase, data_parallel};
  }
  return std::nullopt;
}

std::vector<std::uint64_t> BatchPlan::legal_data_parallel(std::uint64_t train_samples,
                                                          std::uint64_t limit,
                                                          std::uint64_t from) const {
  std::uint64_t common = 0;  // gcd of the micro-batches of every phase; a legal count divides it
  for (const BatchPhase& phase : phases(train_samples)) {
    if (is_behind(phase, from)) continue;
    if (phase.global % phase.micro != 0) return {};
    common = std::gcd(common, phase.global / phase.micro);
  }
  std::vector<std::uint64_t> legal;
  for (std::uint64_t n = 1; n <= std::min(limit, common); ++n)
    if (common % n == 0) legal.push_back(n);
  return legal;
}

std::vector<std::uint64_t> legal_node_counts(const BatchPlan& plan, std::uint64_t train_samples,
                                             RankLayout layout, std::uint64_t max_nodes,
                                             std::uint64_t from) {
  std::vector<std::uint64_t> nodes;
  const auto limit =
      max_nodes * layout.ranks_per_node / std::max<std::uint64_t>(1, layout.model_parallel);
  for (const std::uint64_t dp : plan.legal_data_parallel(train_samples, limit, from)) {
    const std::uint64_t ranks = dp * layout.model_parallel;
    if (ranks % layout.ranks_per_node == 0 && ranks / layout.ranks_per_node <= max_nodes)
      nodes.push_back(ranks / layout.ranks_per_node);
  }
  return nodes;
}

Status check_batch(const BatchPlan& plan, std::uint64_t train_samples, std::uint64_t nodes,
                   RankLayout layout, std::uint64_t from) {
  const std::uint64_t ranks = nodes * layout.ranks_per_node;
  constexpr std::uint64_t kMaxNodes = 16384;
  const auto legal = legal_node_counts(plan, train_samples, layout, kMaxNodes, from);
  const std::string hint =
      legal.empty() ? fmt::format("no node count with {} ranks a node fits; change the micro-batch",
                                  layout.ranks_per_node)
                    : fmt::format("legal node counts with {} ranks a node: {}",
                                  layout.ranks_per_node, fmt::join(legal, ", "));
  if (layout.model_parallel == 0 || ranks == 0 || ranks % layout.model_parallel != 0)
    return fail(fmt::format("{} ranks do not split into groups of {} for tensor x pipeline", ranks,
                            layout.model_parallel),
                "batch", hint);
  const auto bad = plan.first_illegal(ranks / layout.model_parallel, from, train_samples);
  if (bad) return fail(bad->text(), "batch", hint);
  return ok();
}

}  // namespace stoker::recipe
