// The curriculum: how many tokens of each sample an iteration reads, from short to long. Short
// sequences first make the start of a training stable and cheap (Li et al. 2022, "The
// Stability-Efficiency Dilemma"). A pure function of the iteration. Source: DeepSpeed
// curriculum_scheduler, fixed_linear.
#pragma once

#include <array>
#include <cstdint>

#include "common/ids.hpp"
#include "common/json.hpp"
#include "common/result.hpp"

namespace stoker::recipe {

enum class CurriculumKind { FixedLinear };

// From `min` to `max` over `total` iterations, in multiples of `step`.
struct Curriculum {
  std::uint64_t min = 0;    // tokens
  std::uint64_t max = 0;    // tokens
  std::uint64_t total = 0;  // from this iteration on `max`
  std::uint64_t step = 8;   // tokens
  CurriculumKind kind = CurriculumKind::FixedLinear;
};

// Of a model that reads `sequence` tokens. Error: its object is the key that is to blame.
Status check_curriculum(const Curriculum& curriculum, std::uint64_t sequence);
// Tokens of each sample in this iteration, counted from 1. Never falls from one to the next.
std::uint64_t curriculum_length(const Curriculum& curriculum, Iteration iteration);

}  // namespace stoker::recipe

namespace stoker {
template <>
struct EnumNames<recipe::CurriculumKind> {
  static constexpr std::array names{"fixed_linear"};
};
}  // namespace stoker
