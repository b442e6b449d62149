// A pipeline schedule as data: what each pipeline rank does in one step, in order. Generators (one
// file a kind) return compute operations only; passes add transfers, slots and reductions; nothing
// here knows tensors, threads or time. Stages are chunks of consecutive layers, numbered from the
// input; a rank owns one or more. Sources: GPipe (arXiv 1811.06965), 1F1B and interleaved 1F1B
// (arXiv 2104.04473), zero bubble ZB-H1 and ZB-V (arXiv 2401.10241, 2405.15362).
// To add a schedule: its enumerator and name here, its generator in a file of its own, a line in
// generators.hpp and generators.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/json.hpp"
#include "common/result.hpp"

namespace stoker::recipe {

enum class OpKind {
  Forward,          // F
  Backward,         // B: gradients of input and weights at once
  InputGradient,    // I: what the stage before waits for
  WeightGradient,   // W: no operation waits for it, so it may fill gaps
  SendForward,      // activations to the next stage
  RecvForward,      //   from the previous one
  SendBackward,     // the input's gradient to the previous stage
  RecvBackward,     //   from the next one
  ReduceGradients,  // of one stage, over the data-parallel replicas
  ReduceTied,       // the embedding's gradient, between the first and the last stage
};

struct PipelineOp {
  OpKind kind = OpKind::Forward;
  std::uint32_t stage = 0;
  std::uint32_t micro_batch = 0;           // 0 for reductions
  std::uint32_t line = 0, column = 0;      // in a CSV file, from 1; 0 = generated
  [[nodiscard]] std::string text() const;  // "2F0", "2SEND_F0", "2REDUCE_GRAD"
  friend bool operator==(const PipelineOp& a, const PipelineOp& b) {
    return a.kind == b.kind && a.stage == b.stage && a.micro_batch == b.micro_batch;
  }
};
[[nodiscard]] bool is_compute(OpKind kind);
[[nodiscard]] bool is_backward(OpKind kind);  // B or I: makes the input's gradient

enum class ScheduleKind { GPipe, OneFOneB, Interleaved, ZbH1, ZbV, Csv };

struct PipelineSchedule {
  std::uint32_t micro_batches = 0;
  std::vector<std::uint32_t> rank_of_stage;    // its size is the number of stages
  std::vector<std::vector<PipelineOp>> ranks;  // what each rank does, in order
  std::string file;                            // of a CSV, for messages; else empty

  [[nodiscard]] std::uint32_t stages() const {
    return static_cast<std::uint32_t>(rank_of_stage.size());
  }
  // Of an operation, for messages: "2F0", with a CSV "FILE:2:7: 2F0".
  [[nodiscard]] std::string name(const PipelineOp& op) const;
};

// Nothing larger is generated, read or simulated.
inline constexpr std::uint32_t kMostPipelineRanks = 512;
inline constexpr std::uint32_t kMostChunks = 64;
inline constexpr std::uint64_t kMostScheduleOps = 4'000'000;

}  // namespace stoker::recipe

namespace stoker {
template <>
struct EnumNames<recipe::ScheduleKind> {
  static constexpr std::array names{"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "csv"};
};
template <>
struct EnumNames<recipe::OpKind> {  // as in the CSV files of torch.distributed.pipelining
  static constexpr std::array names{"F",      "B",      "I",      "W",           "SEND_F",
                                    "RECV_F", "SEND_B", "RECV_B", "REDUCE_GRAD", "REDUCE_TIED"};
};
}  // namespace stoker
