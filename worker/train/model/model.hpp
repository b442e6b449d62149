// Model: the part of the training core that knows tensors, behind plain memory. It computes with
// the parameters of a FlatState and adds to its gradients. A pipeline cuts it into stages: what
// goes from one to the next is an activation [samples][sequence][hidden] in the model's type, what
// comes back is its gradient.
#pragma once

#include <cstdint>
#include <vector>

#include "common/result.hpp"
#include "recipe/train_config.hpp"

namespace stoker::train {

struct MicroBatch {
  std::vector<std::uint64_t> samples;  // ids: positions in the data order; they key the dropout
  std::vector<std::int64_t> tokens;    // [samples][sequence + 1]; the labels are shifted by one
  // At most the model's; less while a curriculum says so.
  [[nodiscard]] std::size_t sequence() const { return tokens.size() / samples.size() - 1; }
};

// A stage's part of one micro-batch.
struct Unit {
  std::uint32_t stage = 0, micro_batch = 0;
  friend auto operator<=>(const Unit&, const Unit&) = default;
};

using Activation = std::vector<char>;

struct ModelOptions {
  std::uint64_t seed = 0;  // keys the dropout
  Duration deadline{};     // of one sum over the tensor ranks
  // What the backward pass computes again, in the same bits: see TrainLoopConfig.
  recipe::Recompute recompute = recipe::Recompute::None;
  std::uint64_t recompute_every = 1;
  // Tensor ranks share the tokens outside of the products, also of what goes between stages.
  bool sequence_parallel = false;
};

class Model {
 public:
  virtual ~Model() = default;
  // Bytes of the batch's activation between two stages.
  [[nodiscard]] virtual std::size_t activation_bytes(const MicroBatch& batch) const = 0;
  // Runs the unit with dropout and keeps what its backward pass needs. `input` is the activation of
  // the stage before (not read by the first), `output` becomes that of this stage (not by the
  // last). Returns the mean loss of a token, in f32 (f64 when the model is), from the last stage; 0
  // from others.
  virtual Result<double> forward(Unit unit, const MicroBatch& batch, const Activation& input,
                                 Activation& output) = 0;
  // Adds the gradients of `scale` x that mean loss, and forgets the unit. `upstream` is the
  // gradient of the unit's output, `downstream` becomes that of its input.
  virtual Status backward(Unit unit, double scale, const Activation& upstream,
                          Activation& downstream) = 0;
  // The same in two halves, in this order: what the stage before waits for, and the products for
  // the weights, which can wait.
  virtual Status input_gradient(Unit unit, double scale, const Activation& upstream,
                                Activation& downstream) = 0;
  virtual Status weight_gradient(Unit unit) = 0;
  // Without dropout, without keeping anything.
  virtual Result<double> evaluate(Unit unit, const MicroBatch& batch, const Activation& input,
                                  Activation& output) = 0;
};

}  // namespace stoker::train
