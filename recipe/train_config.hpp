// TrainConfig: TRAIN.yaml as plain values, with the defaults of the contract
// (docs/configuration.md). Written by the strict reader (configs/schema/train_schema.hpp), used by
// the training core and by `stoker plan`; it knows no YAML. The data clock is consumed samples;
// iterations are completed optimizer steps; paths count from the working directory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "common/time.hpp"
#include "recipe/batch_plan.hpp"
#include "recipe/curriculum.hpp"
#include "recipe/lr_schedule.hpp"
#include "recipe/save_rounds.hpp"
#include "recipe/schedule/schedule.hpp"

namespace stoker::recipe {

enum class PositionKind { Learned };
enum class Dtype { F64, F32, Bf16 };
// Where it computes: on the CPU, or on one GPU a rank.
enum class DeviceKind { Cpu, Cuda };
// Native: the fastest code of each CPU. Portable: the same code on all of them (numerics.hpp).
enum class Numerics { Native, Portable };
// Of activations in the backward: nothing, the attention's scores, whole layers.
enum class Recompute { None, Selective, Full };
enum class OptimizerKind { AdamW };
// What to do when copies of a parameter differ: end the training, or take over the good copy.
enum class OnDrift { Stop, Repair };

struct ModelConfig {
  std::uint64_t layers = 0;
  std::uint64_t hidden = 0;
  std::uint64_t heads = 0;
  std::uint64_t ffn = 0;  // 4 * hidden when not given
  std::uint64_t sequence = 0;
  std::uint64_t vocabulary = 0;
  double dropout = 0.1;  // in [0, 1)
  PositionKind position = PositionKind::Learned;
  double init_std = 0.02;
};

struct DataSource {
  std::string prefix;  // PREFIX.bin and PREFIX.idx
  double weight = 1.0;
};

struct DataConfig {
  std::vector<DataSource> train;
  std::vector<double> split{969, 30, 1};  // train, validation, test; normalised
  std::uint32_t seed = 1234;
  double last_epoch_threshold = 0.80;  // 0.80 is Megatron's, 0.95 Megatron-DeepSpeed's
  std::string cache = "index-cache";   // folder of the cached index arrays
};

struct ParallelConfig {
  std::uint32_t tensor = 1;
  std::uint32_t pipeline = 1;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  std::string schedule_file;         // of ScheduleKind::Csv
  std::uint32_t virtual_stages = 1;  // a rank; zb-v always has 2
  bool sequence = false;             // tensor ranks share the tokens outside of the products
  std::uint32_t zero = 0;
};

struct TrainLoopConfig {
  std::uint64_t samples = 0;
  Dtype dtype = Dtype::F32;
  DeviceKind device = DeviceKind::Cpu;
  Numerics numerics = Numerics::Native;
  Recompute recompute = Recompute::None;
  std::uint64_t recompute_every = 1;  // full: layers of which only the first one's input is kept
  std::optional<Curriculum> curriculum;
  double clip = 1.0;  // 0 = no clipping
  std::uint64_t seed = 42;
  std::uint32_t threads = 1;  // of one rank; part of what "exact" depends on
  Duration deadline =
      5min;  // of one step: a peer that is silent for longer ends the step with an error
};

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::AdamW;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  // not on biases and other 1-D parameters
};

struct CheckpointConfig {
  std::string directory = "checkpoints";
  std::vector<SaveRound> save{{std::nullopt, 1000}};
  bool asynchronous = false;
  std::uint64_t memory_every = 0;  // iterations between snapshots in memory; 0 = none are made
  std::string samples_log = "samples.log";
};

struct EvaluateConfig {
  std::uint64_t every = 0;  // iterations; 0 = never
  std::uint64_t iterations = 10;
  bool save_before = false;
};

struct CheckConfig {                  // whether the numbers can be trusted; 0 = never
  std::uint64_t replicas_every = 10;  // iterations; also before each save
  OnDrift on_drift = OnDrift::Stop;
  std::uint64_t replay_every = 0;  // iterations
};

struct LogConfig {
  std::uint64_t every = 1;
  bool norms = false;  // of each layer's gradients and of the parameters, and zeros
  std::optional<std::string> tensorboard;
};

struct ExitConfig {
  std::optional<Duration> duration;  // since the start of the process
  std::optional<std::uint64_t> iteration;
  std::optional<std::uint64_t> samples;
};

struct TrainConfig {
  ModelConfig model;
  DataConfig data;
  BatchConfig batch;
  ParallelConfig parallel;
  TrainLoopConfig train;
  OptimizerConfig optimizer;
  LrSchedule lr;
  CheckpointConfig checkpoint;
  EvaluateConfig evaluate;
  CheckConfig check;
  LogConfig log;
  ExitConfig exit;
};

}  // namespace stoker::recipe

namespace stoker {
template <>
struct EnumNames<recipe::PositionKind> {
  static constexpr std::array names{"learned"};
};
template <>
struct EnumNames<recipe::Dtype> {
  static constexpr std::array names{"f64", "f32", "bf16"};
};
template <>
struct EnumNames<recipe::DeviceKind> {
  static constexpr std::array names{"cpu", "cuda"};
};
template <>
struct EnumNames<recipe::Numerics> {
  static constexpr std::array names{"native", "portable"};
};
template <>
struct EnumNames<recipe::Recompute> {
  static constexpr std::array names{"none", "selective", "full"};
};
template <>
struct EnumNames<recipe::OnDrift> {
  static constexpr std::array names{"stop", "repair"};
};
template <>
struct EnumNames<recipe::OptimizerKind> {
  static constexpr std::array names{"adamw"};
};
}  // namespace stoker
