// The batch plan: global batch and micro-batch as pure functions of consumed samples, and
// everything that follows from them: iterations from samples, samples from iterations, and whether
// every step of the ramp-up can be cut into micro-batches on a given number of data-parallel ranks.
// A bad later step used to abort BLOOM-style runs in mid-run. Source of the ramp rule: Megatron-LM
// num_microbatches_calculator (RampupBatchsizeNumMicroBatches).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.hpp"
#include "common/result.hpp"

namespace stoker::recipe {

// From `start` in steps of `increment` to the global batch, spread over `samples`.
struct RampUp {
  std::uint64_t start = 0;
  std::uint64_t increment = 0;
  std::uint64_t samples = 0;
};

// The global batch from this many consumed samples on.
struct BatchStep {
  std::uint64_t from_samples = 0;
  std::uint64_t global = 0;
};

// The micro-batch while consumed samples < until_samples; the last entry has none.
struct MicroStep {
  std::optional<std::uint64_t> until_samples;
  std::uint64_t micro = 1;
};

struct BatchConfig {
  std::vector<MicroStep> micro{{std::nullopt, 1}};
  std::uint64_t global = 0;
  std::optional<RampUp> ramp_up;
  std::vector<BatchStep> steps;  // instead of ramp_up; strictly increasing, the first from 0
};

// Parses Megatron's step schedule "0:768 250M:1536": thresholds in samples, suffixes K M B T.
Result<std::vector<BatchStep>> parse_batch_steps(std::string_view text);

// A stretch of iterations with the same global and micro-batch.
struct BatchPhase {
  std::uint64_t first_iteration = 0;  // completed iterations before it
  std::uint64_t consumed = 0;         // samples consumed before it
  std::uint64_t iterations = 0;
  std::uint64_t global = 0;
  std::uint64_t micro = 0;
};

// What makes a batch illegal: `global` is no multiple of micro x data_parallel.
struct IllegalBatch {
  BatchPhase phase;
  std::uint64_t data_parallel = 0;
  [[nodiscard]] std::string text() const;
};

class BatchPlan {
 public:
  // Errors: a ramp that does not end at the global batch, zero sizes, unordered lists, more than
  // 100000 ramp steps.
  static Result<BatchPlan> make(const BatchConfig& config);

  // The sizes of the iteration that starts when `consumed` samples are behind us.
  [[nodiscard]] std::uint64_t global_batch(std::uint64_t consumed) const;
  [[nodiscard]] std::uint64_t micro_batch(std::uint64_t consumed) const;

  // The phases of a run of `train_samples`; the run ends before the first batch that would go
  // beyond it.
  [[nodiscard]] std::vector<BatchPhase> phases(std::uint64_t train_samples) const;
  [[nodiscard]] std::uint64_t train_iterations(std::uint64_t train_samples) const;
  [[nodiscard]] std::uint64_t consumed_after(Iteration iteration) const;
  // Completed iterations when `consumed` samples are behind us; empty when no iteration ends there.
  [[nodiscard]] std::optional<Iteration> iteration_at(std::uint64_t consumed) const;

  // The first phase in [from, to) consumed samples that does not fit `data_parallel` ranks.
  [[nodiscard]] std::optional<IllegalBatch> first_illegal(std::uint64_t data_parallel,
                                                          std::uint64_t from,
                                                          std::uint64_t to) const;
  // All counts up to `limit` that fit every phase of the run from `from` consumed samples on,
  // ascending.
  [[nodiscard]] std::vector<std::uint64_t> legal_data_parallel(std::uint64_t train_samples,
                                                               std::uint64_t limit,
                                                               std::uint64_t from = 0) const;

 private:
  [[nodiscard]] std::uint64_t next_change(std::uint64_t consumed) const;
  // Visits phases from 0 until `visit` returns false; the last one never ends by itself.
  template <class Visit>
  void walk(Visit visit) const;

  BatchConfig config_;
  double samples_per_increment_ = 0;
};

// How many nodes a run may have: ranks = nodes x ranks_per_node must split into model-parallel
// groups, and the resulting data-parallel count must fit every step of the ramp-up.
struct RankLayout {
  std::uint64_t ranks_per_node = 1;
  std::uint64_t model_parallel = 1;  // tensor x pipeline
};
std::vector<std::uint64_t> legal_node_counts(const BatchPlan& plan, std::uint64_t train_samples,
                                             RankLayout layout, std::uint64_t max_nodes,
                                             std::uint64_t from = 0);

// The golden rule, before the first iteration: an Error that names the first bad step and the legal
// node counts. `from`: consumed samples of the resume point; steps before it are not judged.
Status check_batch(const BatchPlan& plan, std::uint64_t train_samples, std::uint64_t nodes,
                   RankLayout layout, std::uint64_t from = 0);

}  // namespace stoker::recipe
