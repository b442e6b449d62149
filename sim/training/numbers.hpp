// Numbers: what the lines of the ranks tell of the training itself, iteration by iteration: loss,
// gradient norm, learning rate, samples. Functions of the iteration, the order of the data and what
// ails the weights, in plain arithmetic: the same bits on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/ids.hpp"
#include "wire/step_losses.hpp"

namespace stoker::sim {

struct NumbersShape {
  std::uint64_t batch = 512;  // samples an iteration
  double learning_rate = 6e-5;
  std::uint64_t warm_up = 500;  // iterations in which the learning rate rises
  double noise = 0.01;          // of the loss, as a share of it
};

// What is saved with the weights, and goes on with them.
struct TrainingLine {
  std::uint64_t order = 1;    // which order the data are read in
  std::uint64_t skipped = 0;  // samples left out so far
  Iteration rate_from;        // where the schedule of the learning rate began
  double lr_scale = 1;
};

// What went wrong with the weights at an iteration, and stays with all that comes after it.
struct Ailment {
  enum class Kind { Spike, Divergence, NotANumber };
  Kind kind = Kind::Spike;
  Iteration onset;
  double height = 0.5;         // of the level
  std::uint64_t lasts = 40;    // a spike: until it is over; a divergence: until it is `height` high
  std::uint32_t stubborn = 0;  // goings back that do not cure it
};

// Something makes the loss another than it would be.
bool ails(const std::vector<Ailment>& ailments, Iteration at);
// Finite, or empty where the training prints that it is no number.
std::optional<double> loss_at(const NumbersShape& shape, const TrainingLine& line,
                              const std::vector<Ailment>& ailments, Iteration at);
double gradient_norm_at(const std::vector<Ailment>& ailments, Iteration at);
double learning_rate_at(const NumbersShape& shape, const TrainingLine& line, Iteration at);
std::uint64_t samples_at(const NumbersShape& shape, const TrainingLine& line, Iteration at);
// All iterations in (after, until]; of very many the newest.
wire::StepLosses losses_of(const NumbersShape& shape, const TrainingLine& line,
                           const std::vector<Ailment>& ailments, Iteration after, Iteration until);

}  // namespace stoker::sim
