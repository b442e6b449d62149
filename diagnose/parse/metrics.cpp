// The table of names under which training programs print the same quantity.
#include "diagnose/parse/metrics.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace stoker::diagnose {

namespace {

enum class Field {
  ConsumedSamples,
  ConsumedTokens,
  ElapsedMs,
  ElapsedS,
  ElapsedByUnit,
  Lr,
  GlobalBatchSize,
  Loss,
  LossScale,
  GradNorm,
  NumZeros,
  ParamsNorm,
  Skipped,
  Nan,
  SamplesPerS,
  Tflops
};

struct Known {
  std::string_view name;
  Field field;
};

// Sorted by name (checked below).
constexpr std::array kKnown{
    Known{"CurrSamplesPerSec", Field::SamplesPerS},
    Known{"TFLOPs", Field::Tflops},
    Known{"batch size", Field::GlobalBatchSize},
    Known{"consumed samples", Field::ConsumedSamples},
    Known{"consumed tokens", Field::ConsumedTokens},
    Known{"consumed_samples", Field::ConsumedSamples},
    Known{"consumed_tokens", Field::ConsumedTokens},
    Known{"dt", Field::ElapsedByUnit},
    Known{"elapsed time per iteration (ms)", Field::ElapsedMs},
    Known{"elapsed time per iteration (s)", Field::ElapsedS},
    Known{"elapsed time per step (s)", Field::ElapsedS},
    Known{"elapsed_time_per_iteration_ms", Field::ElapsedMs},
    Known{"global batch size", Field::GlobalBatchSize},
    Known{"global_batch_size", Field::GlobalBatchSize},
    Known{"global_batch_size_current", Field::GlobalBatchSize},
    Known{"gnorm", Field::GradNorm},
    Known{"grad norm", Field::GradNorm},
    Known{"grad_norm", Field::GradNorm},
    Known{"gradient_norm", Field::GradNorm},
    Known{"iter time", Field::ElapsedByUnit},
    Known{"iter time s", Field::ElapsedS},
    Known{"learning rate", Field::Lr},
    Known{"learning_rate", Field::Lr},
    Known{"lm loss", Field::Loss},
    Known{"lm-loss", Field::Loss},
    Known{"lm_loss", Field::Loss},
    Known{"loss", Field::Loss},
    Known{"loss scale", Field::LossScale},
    Known{"loss train", Field::Loss},
    Known{"loss_scale", Field::LossScale},
    Known{"lr", Field::Lr},
    Known{"model_tflops_per_gpu", Field::Tflops},
    Known{"norm", Field::GradNorm},
    Known{"num zeros", Field::NumZeros},
    Known{"num_consumed_tokens", Field::ConsumedTokens},
    Known{"number of nan iterations", Field::Nan},
    Known{"number of skipped iterations", Field::Skipped},
    Known{"params norm", Field::ParamsNorm},
    Known{"per_token_loss", Field::Loss},
    Known{"reduced_train_loss", Field::Loss},
    Known{"reduced_train_loss_step", Field::Loss},
    Known{"samples per second", Field::SamplesPerS},
    Known{"samples/sec", Field::SamplesPerS},
    Known{"samples_per_sec", Field::SamplesPerS},
    Known{"skipped", Field::Skipped},
    Known{"tflops", Field::Tflops},
    Known{"throughput per GPU (TFLOP/s/GPU)", Field::Tflops},
    Known{"time", Field::ElapsedByUnit},
    Known{"took", Field::ElapsedByUnit},
    Known{"train loss", Field::Loss},
    Known{"train_loss", Field::Loss},
    Known{"train_loss_step", Field::Loss},
    Known{"train_step_timing in s", Field::ElapsedS},
};
static_assert(std::is_sorted(kKnown.begin(), kKnown.end(),
                             [](const Known& a, const Known& b) { return a.name < b.name; }));

constexpr std::size_t kMostMetrics = 64;
constexpr std::size_t kLongestName = 64;

void set_count(std::optional<std::uint64_t>& slot, double value) {
  if (value >= 0 && value < 1.8e19) slot = static_cast<std::uint64_t>(value);
}

void set_finite(std::optional<double>& slot, double value) {
  if (std::isfinite(value)) slot = value;
}

double milliseconds(double value, std::string_view unit) {
  return unit.starts_with("ms") ? value : value * 1000;
}

void set_field(IterationMetrics& m, Field field, double value, std::string_view unit) {
  switch (field) {
    case Field::ConsumedSamples: return set_count(m.consumed_samples, value);
    case Field::ConsumedTokens: return set_count(m.consumed_tokens, value);
    case Field::ElapsedMs: return set_finite(m.elapsed_ms, value);
    case Field::ElapsedS: return set_finite(m.elapsed_ms, value * 1000);
    case Field::ElapsedByUnit:
      if (!unit.empty()) set_finite(m.elapsed_ms, milliseconds(value, unit));
      return;
    case Field::Lr: return set_finite(m.lr, value);
    case Field::GlobalBatchSize: return set_count(m.global_batch_size, value);
    case Field::Loss: m.loss = value; return;
    case Field::LossScale: return set_finite(m.loss_scale, value);
    case Field::GradNorm: return set_finite(m.grad_norm, value);
    case Field::NumZeros: return set_finite(m.num_zeros, value);
    case Field::ParamsNorm: return set_finite(m.params_norm, value);
    case Field::Skipped: return set_count(m.skipped, value);
    case Field::Nan: return set_count(m.nan, value);
    case Field::SamplesPerS: return set_finite(m.samples_per_s, value);
    case Field::Tflops: return set_finite(m.tflops, value);
  }
}

}  // namespace

bool assign_metric(IterationMetrics& metrics, std::string_view name, double value,
                   std::string_view unit) {
  const auto known =
      std::lower_bound(kKnown.begin(), kKnown.end(), name,
                       [](const Known& entry, std::string_view n) { return entry.name < n; });
  if (known != kKnown.end() && known->name == name) {
    set_field(metrics, known->field, value, unit);
    return true;
  }
  if (name.empty() || name.size() > kLongestName || !std::isfinite(value)) return false;
  if (metrics.metrics.size() < kMostMetrics) metrics.metrics.emplace(std::string(name), value);
  return false;
}

namespace {
template <class T>
void put(Json& out, const char* key, const std::optional<T>& value) {
  if (value) out[key] = *value;
}
void put_loss(Json& out, const std::optional<double>& loss) {
  if (loss) out["loss"] = std::isfinite(*loss) ? Json(*loss) : Json(nullptr);
}
}  // namespace

Json to_parse_json(const IterationMetrics& m, const std::string& file, std::uint64_t line) {
  Json out{{"file", file}, {"line", line}};
  put(out, "iteration", m.iteration);
  put(out, "total", m.total);
  put(out, "consumed_samples", m.consumed_samples);
  put(out, "consumed_tokens", m.consumed_tokens);
  put(out, "elapsed_ms", m.elapsed_ms);
  put(out, "lr", m.lr);
  put(out, "global_batch_size", m.global_batch_size);
  put_loss(out, m.loss);
  put(out, "loss_scale", m.loss_scale);
  put(out, "grad_norm", m.grad_norm);
  put(out, "num_zeros", m.num_zeros);
  put(out, "params_norm", m.params_norm);
  put(out, "skipped", m.skipped);
  put(out, "nan", m.nan);
  put(out, "samples_per_s", m.samples_per_s);
  put(out, "tflops", m.tflops);
  if (!m.metrics.empty()) out["metrics"] = m.metrics;
  return out;
}

Json to_parse_json(const ValidationMetrics& m, const std::string& file, std::uint64_t line) {
  Json out{{"kind", "validation"}, {"file", file}, {"line", line}, {"dataset", m.dataset}};
  put(out, "iteration", m.iteration);
  put_loss(out, m.loss);
  put(out, "ppl", m.ppl);
  return out;
}

}  // namespace stoker::diagnose
