// Lines to values.
#include "daemon/logs/script_progress.hpp"

#include <utility>

#include "diagnose/parse/phase_line.hpp"

namespace stoker::daemon {
namespace {

constexpr Duration kLeaderSilent = 5min;  // then another log may lead

watch::ScriptIteration iteration_of(const diagnose::IterationMetrics& metrics) {
  watch::ScriptIteration line;
  line.iteration = Iteration(*metrics.iteration);
  line.elapsed_ms = metrics.elapsed_ms;
  line.total = metrics.total;
  line.samples = metrics.consumed_samples;
  line.tokens = metrics.consumed_tokens;
  line.loss = metrics.loss;
  line.gradient_norm = metrics.grad_norm;
  line.loss_scale = metrics.loss_scale;
  line.learning_rate = metrics.lr;
  line.tflops = metrics.tflops;
  line.skipped = metrics.skipped.value_or(0);
  line.nan = metrics.nan.value_or(0);
  return line;
}

}  // namespace

ScriptProgress::ScriptProgress(const core::RunPolicy& policy,
                               const std::vector<core::Cursor>& cursors)
    : beats_(policy, cursors) {
  if (auto reader = diagnose::ProgressReader::make(policy.watch.progress))
    reader_ = *std::move(reader);
  else
    error_ = reader.error().message();
}

void ScriptProgress::set_generation(Generation live, Instant now, WallTime wall) {
  if (beats_.set_generation(live, now, wall)) leader_.clear();
}

void ScriptProgress::line(const std::string& source, std::string_view text, Instant now,
                          WallTime wall) {
  const auto metrics = reader_.read(text);
  if (!metrics) {
    if (diagnose::parse_validation_line(text)) beats_.progressed(now, wall);
    const auto phase = diagnose::parse_phase_line(text);
    if (phase && phase->mark == diagnose::PhaseMark::SaveEnds && phase->iteration)
      beats_.saved(Iteration(*phase->iteration));
    return;
  }
  const bool leads = leader_.empty() || source == leader_ || now - leader_at_ > kLeaderSilent;
  if (!leads && *metrics->iteration <= beats_.reached().value) return;
  leader_ = source;
  leader_at_ = now;
  beats_.completed(iteration_of(*metrics), now, wall);
}

}  // namespace stoker::daemon
