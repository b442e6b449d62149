// When to save: rounds as data, `[{until: 100, every: 10}, {until: 1000, every: 18}, {every:
// 1500}]`. An iteration belongs to the first round whose `until` it does not exceed, and is saved
// when it is a multiple of that round's `every` (absolute, as Megatron counts). Also the best
// interval between saves for a given time between failures.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/ids.hpp"
#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker::recipe {

struct SaveRound {
  std::optional<std::uint64_t>
      until;  // iteration, inclusive; the last round has none, or saves stop there
  std::uint64_t every = 1000;
};

// Errors: every = 0, untils that do not grow, a round after one without `until`.
Status check_save_rounds(const std::vector<SaveRound>& rounds);
// Is a save due when `iteration` (completed) ends? Never at 0.
bool save_due(const std::vector<SaveRound>& rounds, Iteration iteration);
// The number of regular saves in iterations 1..last.
std::uint64_t count_saves(const std::vector<SaveRound>& rounds, Iteration last);

// Best time between saves that cost `save` each when failures come every `mtbf` on average.
Duration young_interval(Duration save, Duration mtbf);  // sqrt(2 C M), Young 1974
// Daly 2006, higher order; M when C >= 2M. Excludes the save itself.
Duration daly_interval(Duration save, Duration mtbf);

}  // namespace stoker::recipe
