// The sequence plan: how long the samples of each iteration are (the model's sequence, or less
// while a curriculum says so), and what follows from it: tokens and work. Pure; the clock is the
// iteration, also where its step was skipped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recipe/batch_plan.hpp"
#include "recipe/train_config.hpp"

namespace stoker::recipe {

// A stretch of iterations with samples of the same length.
struct SequencePhase {
  std::uint64_t first_iteration = 0;  // completed iterations before it
  std::uint64_t iterations = 0;
  std::uint64_t sequence = 0;  // tokens of a sample
};

// Of this iteration, counted from 1.
std::uint64_t sequence_at(const TrainConfig& config, Iteration iteration);
// Of the iterations after `from`, up to and with `to`.
std::vector<SequencePhase> sequence_phases(const TrainConfig& config, Iteration from, Iteration to);

// Tokens that are consumed when `done` iterations and `consumed` samples are behind us.
std::uint64_t tokens_after(const TrainConfig& config, const BatchPlan& batches, Iteration done,
                           std::uint64_t consumed);
// The work of those iterations as a number of samples of full length.
std::uint64_t full_samples(const TrainConfig& config, const BatchPlan& batches, Iteration from,
                           Iteration to);
// The work of a sample of that many tokens, as a share of one of full length.
double work_share(const TrainConfig& config, std::uint64_t sequence);

// "fixed_linear 64 to 2048 over 36000 iterations, in steps of 8", or "none".
std::string curriculum_text(const TrainConfig& config);

}  // namespace stoker::recipe
