#include "worker/train/torch/repeats.hpp"

#include <fmt/format.h>
#include <utility>

#include "worker/train/run/say.hpp"

namespace stoker::train {

std::optional<double> Repeats::forward(Unit unit, const MicroBatch& batch) {
  const Shape shape{batch.samples.size(), batch.sequence()};
  if (open_ || shape.samples * shape.sequence > kMostTokens) return std::nullopt;
  if (shape != shape_) {
    forget();
    shape_ = shape, trial_ = {};
  }
  if (trial_.given_up()) return std::nullopt;
  open_ = unit;
  began_ = monotonic_now();
  if (!trial_.recorded()) return std::nullopt;
  if (forward_ == nullptr) {
    passes_.begin(batch, trace_);
    forward_ = recorded([&] { passes_.forward(trace_); });
    if (forward_ == nullptr) {
      forget();
      return std::nullopt;
    }
  } else {
    passes_.fill(batch, trace_);
  }
  forward_->replay();
  return trace_.loss.mean.item<double>();
}

bool Repeats::backward(Unit unit, double scale) {
  if (open_ != unit || forward_ == nullptr) return false;
  if (backward_ == nullptr || scale_ != scale) {
    backward_.reset();
    // The trace stays as the forward pass fills it.
    const std::vector<BlockTrace> blocks = trace_.blocks;
    backward_ = recorded([&] { passes_.backward(trace_, scale); });
    trace_.blocks = blocks;
    scale_ = scale;
  }
  if (backward_ != nullptr)
    backward_->replay();
  else
    passes_.backward(trace_, scale);
  return true;
}

void Repeats::end(Unit unit) {
  if (open_ != unit) return;
  open_.reset();
  if (trial_.timed()) (void)HostView(device_, written_.data_ptr(), 1);  // until all is done
  const bool known = trial_.decided();
  trial_.done(to_seconds(monotonic_now() - began_));
  if (trial_.given_up()) forget();
  if (known || !trial_.decided() || !reports_) return;
  constexpr double kMilli = 1e3;
  say(fmt::format("passes of {} x {} tokens: {:.2f} ms as a CUDA graph, {:.2f} ms without: {}",
                  shape_.samples, shape_.sequence, kMilli * trial_.seconds_with(),
                  kMilli * trial_.seconds_without(), trial_.recorded() ? "kept" : "not used"));
}

// Null: it cannot be, and nothing was done.
std::unique_ptr<Recorded> Repeats::recorded(const std::function<void()>& pass) {
  std::unique_ptr<Recorded> made;
  try {
    made = operators_.record(device_, pass);
  } catch (const c10::Error&) {  // also: there is no memory for it
  }
  if (made == nullptr) {
    trial_.give_up();
    if (reports_)
      say(
          fmt::format("passes of {} x {} tokens could not be recorded as a CUDA graph: they go on "
                      "without",
                      shape_.samples, shape_.sequence));
  }
  return made;
}

void Repeats::forget() {
  backward_.reset();
  forward_.reset();
  trace_ = {};
}

}  // namespace stoker::train
