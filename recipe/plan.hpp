// The plan of a training before a single GPU hour is spent: size, memory, legal node counts,
// iterations, ETA, checkpoint volume and the best save interval. Pure arithmetic for `stoker plan`,
// which adds what it observed (speed, save time, time between failures) and prints it. What cannot
// be known yet stays empty.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/time.hpp"
#include "recipe/flops.hpp"
#include "recipe/train_config.hpp"

namespace stoker::recipe {

struct PlanRequest {
  std::uint64_t nodes = 1;
  std::uint64_t ranks_per_node = 1;
  std::uint64_t max_nodes = 1024;            // how far to look for legal node counts
  std::optional<double> samples_per_second;  // of the whole run, observed
  std::uint64_t observed_at = 0;             // at which iteration that was; 0: at full length
  std::optional<double>
      device_tflops;  // else: what one device is expected to reach (model convention)
  std::optional<Duration> iteration_time;  // else: of the full batch
  std::uint64_t from = 0;  // consumed samples; earlier steps are trained by other nodes
  std::uint64_t done = 0;  // iterations behind us: the ETA is of what is left
  const PipelineSchedule* schedule = nullptr;  // read from parallel.schedule, where that is a file
  std::optional<Duration> save_cost;           // how long one save holds the training up
  std::optional<Duration> mean_time_between_failures;
};

// Bytes on one rank. Model state by dtype: bf16 18 a parameter (bf16 weights, f32 gradients,
// masters and two moments), f32 16, f64 32; ZeRO-1 over d ranks: 6 + 12/d for bf16. Activations:
// Korthikanti et al. 2022, s b h (10 + 24/t + 5 a s/(h t)) a layer at two bytes a value with t
// tensor-parallel ranks (10/t with sequence parallelism), times two for f32; without the last term
// when the attention's scores are recomputed; 2 s b h and one layer's full share when whole layers
// are; plus the f32 logits. An estimate: allocators and buffers come on top.
//
// A GPU in bf16 keeps other things: no matrix of scores (unless dropout meets a width of heads that
// the kernel has not), s b h (8 + 24/t) a layer, 12 in place of 8 with dropout, and a few numbers a
// token; logits of two bytes; and while it works, for one micro-batch 44 s b h. That comes within 3
// % of what was measured (docs/gpu.md). What CUDA itself takes, on any GPU, is a number of its own.
struct MemoryEstimate {
  std::uint64_t model_state = 0;
  std::uint64_t activations = 0;
  std::uint64_t runtime = 0;  // of CUDA: context, kernels, the libraries' memory
  [[nodiscard]] std::uint64_t total() const { return model_state + activations + runtime; }
};

// The part of the model that one pipeline rank holds.
struct StageShare {
  std::uint64_t layers = 0;
  bool first = false, last = false;  // the embedding; the final norm, the head and its copy of it
  double micro = 1;                  // samples of one micro-batch
  double samples = 0;                // whose activations are alive at once
};

struct PipelinePlan;  // pipeline_plan.hpp

struct Plan {
  std::uint64_t parameters = 0;
  std::uint64_t data_parallel = 0;
  std::vector<std::uint64_t> legal_nodes;   // ascending, up to max_nodes
  std::optional<IllegalBatch> illegal;      // the first step that does not fit the asked nodes
  std::optional<std::string> illegal_mesh;  // ranks or micro-batches that the mesh cannot use
  std::optional<BatchPhase> legal_from;     // after which the asked nodes fit all steps
  std::vector<BatchPhase> phases;
  std::uint64_t iterations = 0;
  std::uint64_t samples = 0;  // really used: the last incomplete batch is not
  std::uint64_t tokens = 0;
  std::uint64_t consumed = 0;  // samples behind us
  double total_flops = 0;      // model convention
  double iteration_flops_legacy =
      0;                         // of the full batch, legacy_hardware convention (the log's TFLOPs)
  std::optional<double> tflops;  // of one device, in that convention
  MemoryEstimate memory;         // of the rank that needs most; zero when the mesh does not fit
  std::uint64_t replica_bytes = 0;               // model state of one replica without ZeRO
  std::shared_ptr<const PipelinePlan> pipeline;  // with more than one stage, when legal
  std::uint64_t snapshot_bytes = 0;  // of a node's main memory; 0: none are made, or no mesh
  std::uint64_t node_bytes = 0;      // the same with what its ranks need there on the CPU
  std::uint64_t checkpoint_bytes = 0;
  std::uint64_t checkpoints = 0;
  std::optional<Duration> eta;              // of what is left, without interruption
  std::optional<Duration> iteration_time;   // of the full batch
  std::optional<Duration> save_interval;    // Daly
  std::optional<std::uint64_t> save_every;  // the same in iterations of the full batch
};

FlopsShape flops_shape(const ModelConfig& model, Recompute recompute);
std::uint64_t bytes_per_value(Dtype dtype);  // of a weight in memory
MemoryEstimate estimate_stage(const TrainConfig& config, const StageShare& share,
                              std::uint64_t data_parallel);
// Of a rank that holds all layers of its tensor part.
MemoryEstimate estimate_memory(const TrainConfig& config, std::uint64_t micro,
                               std::uint64_t data_parallel);
// Masters and both moments: 12 bytes a parameter, 24 for f64.
std::uint64_t checkpoint_bytes(const TrainConfig& config);

// Error: the batch or the mesh itself is impossible.
Result<Plan> make_plan(const TrainConfig& config, const PlanRequest& request);

// Time left at this speed; empty when the speed is not known or not above zero.
std::optional<Duration> eta(std::uint64_t consumed, std::uint64_t train_samples,
                            double samples_per_second);

}  // namespace stoker::recipe
