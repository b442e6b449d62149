// Who reads which samples: a pure function of consumed samples. Each micro-step takes micro x dp
// consecutive samples and rank r gets [r micro, (r + 1) micro) of them, so the set of samples of a
// global batch depends on neither micro nor dp.
#pragma once

#include <cstdint>

#include "common/check.hpp"

namespace stoker::train {

struct SampleRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  bool operator==(const SampleRange&) const = default;
};

struct BatchCut {
  std::uint64_t consumed = 0;  // before this iteration
  std::uint64_t global = 0;
  std::uint64_t micro = 0;
  std::uint64_t data_parallel = 1;

  // How many micro-steps each rank makes; the batch must be legal (recipe::check_batch).
  [[nodiscard]] std::uint64_t micro_steps() const {
    STOKER_CHECK(micro > 0 && data_parallel > 0 && global % (micro * data_parallel) == 0,
                 "an illegal batch");
    return global / (micro * data_parallel);
  }
  // The consecutive global sample numbers of one micro-step on one data-parallel rank.
  [[nodiscard]] SampleRange samples(std::uint64_t micro_step, std::uint64_t rank) const {
    return {consumed + (micro_step * data_parallel + rank) * micro, micro};
  }
};

}  // namespace stoker::train
