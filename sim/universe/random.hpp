// Random: one stream of a seed, the same on every machine and with every compiler: integers only,
// and no libm (xoshiro256**, Blackman and Vigna 2018; exponential by von Neumann's comparisons,
// 1951).
#pragma once

#include <array>
#include <cstdint>

#include "common/time.hpp"

namespace stoker::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed);

  std::uint64_t next();
  std::uint64_t below(std::uint64_t bound);  // 0 .. bound - 1, evenly; bound 0: 0
  Duration between(Duration low, Duration high);
  bool chance(std::uint32_t per_mille) { return below(1000) < per_mille; }
  // Exponentially distributed, so that events come independently at a rate of one in `mean`.
  Duration exponential(Duration mean);

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace stoker::sim
