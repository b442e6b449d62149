// Learned durations: how long the phases of this very run usually take. A small streaming histogram
// with integer buckets (eight a power of two, so an answer is at most 12.5 % too high); old counts
// fade by halving, so a run that became slower is learned again. No floating point beyond the
// conversion of milliseconds.
#pragma once

#include <map>
#include <optional>

#include "common/json.hpp"
#include "common/time.hpp"
#include "wire/agent_event.hpp"

namespace stoker::core {

class Histogram {
 public:
  void add(Duration value, std::uint64_t times = 1);
  // Folds a summary: half of the mass at p50, one in a hundred at p99, one at max. Values that are
  // negative or not finite are left out.
  void add(const wire::Quantiles& quantiles);
  // Upper bound of the bucket that holds the quantile per_mille/1000; empty without observations.
  [[nodiscard]] std::optional<Duration> quantile(std::uint32_t per_mille) const;
  [[nodiscard]] std::uint64_t count() const;

 private:
  void fade();
  std::map<std::uint32_t, std::uint64_t> buckets_;
  STOKER_FIELDS(Histogram, buckets_)
};

// What is known of one phase: its durations, and how often its limit was hit in a row.
struct PhaseFacts {
  Histogram durations;
  std::uint32_t hits = 0;          // hang verdicts in this phase since the last progress
  std::uint32_t factor = 1;        // of the limit: doubled when it was hit twice in a row
  Instant factor_needed;           // when it was doubled, or something took longer than undoubled
  std::uint32_t false_alarms = 0;  // suspicions that progress disproved, since false_since
  Instant false_since;
  STOKER_FIELDS(PhaseFacts, durations, hits, factor, factor_needed, false_alarms, false_since)
};

}  // namespace stoker::core
