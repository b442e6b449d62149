// Replay: whether a rank computes what it should. Before a step, the first micro-batch of one
// replica is computed by the ranks of that replica and, at the same time, by those of the next one;
// then the step computes it again. Loss and gradients must be the same bits (Dixit et al., "Silent
// Data Corruptions at Scale", 2021: cores that compute wrongly, and only sometimes). Every replica
// has its turn. Costs one micro-batch through the pipeline and a digest of the gradients.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "worker/train/executor/executor.hpp"
#include "worker/train/state/flat_state.hpp"

namespace stoker::train {

struct ReplayNumbers {  // of one computation on one rank
  std::uint64_t there = 0;
  double loss = 0;  // 0 where this rank has no last stage
  std::uint64_t gradients = 0;
  [[nodiscard]] bool equals(const ReplayNumbers& other) const;  // by bits
};
struct ReplayRecord {  // of one rank
  ReplayNumbers original, again;
};

struct ReplayDiffers {
  std::vector<std::uint32_t> ranks;  // that may compute wrongly
  bool outvoted = false;             // two computations agree against those of one rank
  std::string what;
};
// Of the micro-batch of `replica`, from the records of all ranks.
std::optional<ReplayDiffers> judge_replay(const Mesh& mesh, std::uint32_t replica,
                                          const std::vector<ReplayRecord>& records);

// After which operation of a rank's list the gradients are those of micro-batch 0 alone, complete;
// empty where another one has been added by then (the split backward of zb may mix them).
std::optional<std::size_t> first_alone(const std::vector<recipe::PipelineOp>& ops);

class Replay {
 public:
  Replay(Comm& comm, Model& model, FlatState& state, Duration deadline)
      : comm_(comm), model_(model), state_(state), deadline_(deadline) {}

  // The turns go round the replicas.
  [[nodiscard]] std::uint32_t replica_of(std::uint64_t turn) const;
  struct Turn {
    std::uint32_t replica = 0;
    const recipe::PipelineSchedule& single;  // of one micro-batch
    const recipe::PipelineSchedule& step;    // what follows
    double weight = 1;
    std::function<Result<MicroBatch>(std::uint32_t)> fetch;
    std::function<void()> progress;
  };
  // Computes the micro-batch that `fetch` gives, where this rank has a part in it; twice where
  // nothing else could be compared. The gradients are not what they were.
  Status run(const Turn& turn);
  // The step that computes it again begins; then each operation, and the loss of a micro-batch.
  void watch(const std::vector<recipe::PipelineOp>& ops);
  void after_op();
  void loss(std::uint32_t micro_batch, double mean);
  // Collective over the world, after the step's gradients; the same answer on all ranks.
  Result<std::optional<ReplayDiffers>> compare();

 private:
  Result<ReplayNumbers> once(const Turn& turn);
  [[nodiscard]] std::uint64_t digest() const;

  Comm& comm_;
  Model& model_;
  FlatState& state_;
  Duration deadline_;
  std::uint32_t replica_ = 0;
  std::optional<std::size_t> alone_after_;
  std::size_t done_ = 0;  // operations of the step
  bool watching_ = false;
  ReplayRecord mine_;
};

}  // namespace stoker::train
