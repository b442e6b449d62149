// IterationMetrics: what one iteration line said, of any program; the fields of
// `stoker parse --json`. A field that the line does not have is empty. A loss that was printed as
// nan or inf is kept (it is news); other non-finite numbers are dropped.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/json.hpp"

namespace stoker::diagnose {

struct IterationMetrics {
  std::optional<std::uint64_t> iteration, total, consumed_samples, consumed_tokens;
  std::optional<double> elapsed_ms;  // of one iteration
  std::optional<double> lr;
  std::optional<std::uint64_t> global_batch_size;
  std::optional<double> loss, loss_scale, grad_norm, num_zeros, params_norm;
  std::optional<std::uint64_t> skipped, nan;  // as the program counts them
  std::optional<double> samples_per_s, tflops;
  std::map<std::string, double> metrics;  // further named losses and numbers, at most 64
  friend bool operator==(const IterationMetrics&, const IterationMetrics&) = default;
};

struct ValidationMetrics {
  std::optional<std::uint64_t> iteration;
  std::string dataset;  // as printed before "loss at iteration": "validation", "valid", "test", …
  std::optional<double> loss, ppl;
  friend bool operator==(const ValidationMetrics&, const ValidationMetrics&) = default;
};

// Puts a number under the name that the program gave it: "elapsed time per iteration (s)", "lr",
// "grad_norm"; unknown names go to `metrics`. `unit` is what stood behind the number ("ms", "s",
// "GiB", "%"), or empty. True: the name is one of the known fields.
bool assign_metric(IterationMetrics& metrics, std::string_view name, double value,
                   std::string_view unit = {});

// One object with absent fields left out; a non-finite loss is written as null.
Json to_parse_json(const IterationMetrics& metrics, const std::string& file, std::uint64_t line);
Json to_parse_json(const ValidationMetrics& metrics, const std::string& file, std::uint64_t line);

}  // namespace stoker::diagnose
