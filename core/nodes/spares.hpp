// Spares: how long the nodes will last. Nodes go out of service at the rate seen so far (convicted,
// or called down by the scheduler), each for as long as an exclusion; those out now come back when
// theirs ends. Stepped by the hour, 90 days ahead.
#pragma once

#include <optional>
#include <string>

#include "core/nodes/ledger.hpp"

namespace stoker::core {

struct SpareForecast {
  std::uint32_t known = 0, needed = 0, out = 0, free = 0;
  double lost_per_day = 0;         // 0: fewer than two losses, or within an hour
  std::optional<Duration> out_in;  // until fewer than `needed` are left; empty: not within 90 days
};
SpareForecast forecast_spares(const NodeLedger& ledger, std::uint32_t needed, Duration exclude_for,
                              Instant now);
// "out of spares in 3.1 days"; "" when they last.
std::string spares_text(std::optional<double> out_in_s);

}  // namespace stoker::core
