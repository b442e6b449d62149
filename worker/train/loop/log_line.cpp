#include "worker/train/loop/log_line.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace stoker::train {

std::string format_iteration_line(const IterationLine& l) {
  return fmt::format(
      " iteration {:8d}/{:8d} | consumed samples: {:12d} | consumed tokens: {:12d} | "
      "elapsed time per iteration (s): {:.2f} | learning rate: {:.3E} | global batch size: {:5d} | "
      "{}grad norm: {:.3f} | {}{}{}number of skipped iterations: {:3d} | "
      "number of nan iterations: {:3d} | samples per second: {:.3f} | TFLOPs: {:.2f} |",
      l.iteration.value, l.total, l.consumed_samples, l.consumed_tokens, l.seconds, l.learning_rate,
      l.global_batch, l.loss ? fmt::format("lm loss: {:.6E} | ", *l.loss) : "", l.gradient_norm,
      l.zeros ? fmt::format("num zeros: {:.1f} | ", *l.zeros) : "",
      l.parameter_norm ? fmt::format("params norm: {:.3f} | ", *l.parameter_norm) : "",
      l.sequence ? fmt::format("curriculum seqlen: {:5d} | ", *l.sequence) : "", l.skipped, l.nan,
      l.samples_per_second, l.tflops);
}

std::string format_validation_lines(Iteration iteration, double loss) {
  const std::string line = fmt::format(
      " validation loss at iteration {} | lm loss value: {:.6E} | lm loss PPL: {:.6E} |",
      iteration.value, loss, std::exp(std::min(20.0, loss)));
  const std::string dashes(line.size(), '-');
  return dashes + "\n" + line + "\n" + dashes;
}

}  // namespace stoker::train
