// Repeats: the passes of micro-batches of one shape come again and again. Where a GPU would wait
// for the CPU to queue thousands of small operators, they are recorded (Operators::record) and done
// again in one call, in the same bits: the trace's tensors stay where they are, and only the tokens
// and the samples' numbers in them change.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "worker/train/model/model.hpp"
#include "worker/train/torch/pass_trace.hpp"
#include "worker/train/torch/trial.hpp"

namespace stoker::train {

class Repeats {
 public:
  static constexpr std::size_t kMostTokens = 8192;  // more of them keep a GPU busy anyway

  struct Passes {
    std::function<void(const MicroBatch&, PassTrace&)>
        begin;  // makes the trace of a shape, and fills it
    std::function<void(const MicroBatch&, PassTrace&)> fill;  // with another micro-batch
    std::function<void(PassTrace&)> forward;
    std::function<void(PassTrace&, double scale)> backward;
  };
  // `written` by every backward pass, on the device: to wait for one. `reports`: this rank says
  // what came out.
  Repeats(Device& device, const Operators& operators, Passes passes, at::Tensor written,
          bool reports)
      : device_(device),
        operators_(operators),
        passes_(std::move(passes)),
        written_(std::move(written)),
        reports_(reports) {}

  // The loss of the unit. Null: the caller computes it, and the unit's backward pass too.
  std::optional<double> forward(Unit unit, const MicroBatch& batch);
  // False: the caller computes it.
  bool backward(Unit unit, double scale);
  // After the unit's backward pass, no matter what computed it.
  void end(Unit unit);

 private:
  struct Shape {
    std::size_t samples = 0, sequence = 0;
    friend bool operator==(const Shape&, const Shape&) = default;
  };
  std::unique_ptr<Recorded> recorded(const std::function<void()>& pass);
  void forget();

  Device& device_;
  const Operators& operators_;
  Passes passes_;
  at::Tensor written_;
  bool reports_;
  Shape shape_;  // that came last; what is below is of it
  Trial trial_;
  PassTrace trace_;
  std::unique_ptr<Recorded> forward_, backward_;
  double scale_ = 0;          // of `backward_`
  std::optional<Unit> open_;  // between its two passes
  Instant began_{};
};

}  // namespace stoker::train
