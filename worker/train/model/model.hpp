// Model: the part of the training core that knows tensors, behind plain memory. It computes with
// the parameters of a FlatState and adds to its gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "common/result.hpp"

namespace stoker::train {

struct MicroBatch {
  std::vector<std::uint64_t> samples;  // ids: positions in the data order; they key the dropout
  std::vector<std::int64_t> tokens;    // [samples][sequence + 1]; the labels are shifted by one
};

enum class Accumulate { Replace, Add };  // of gradients: the first micro-batch of a step replaces

class Model {
 public:
  virtual ~Model() = default;
  // Runs the micro-batch with dropout and keeps what its backward pass needs under `slot`. Returns
  // the mean loss of a token, in f32 (f64 when the model is). A slot is free again after
  // `backward`.
  virtual Result<double> forward(std::uint32_t slot, const MicroBatch& batch) = 0;
  // Gradients of `scale` x that mean loss.
  virtual Status backward(std::uint32_t slot, double scale, Accumulate how) = 0;
  // Without dropout, without keeping anything.
  virtual Result<double> evaluate(const MicroBatch& batch) = 0;
};

}  // namespace stoker::train
