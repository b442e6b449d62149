#include "wire/orders.hpp"

#include <algorithm>

STOKER_JSON_ONCE_SOURCE(stoker::wire::Orders)
STOKER_JSON_ONCE_SOURCE(stoker::wire::Start)

namespace stoker::wire {

bool ends_by_exit(const FinishedWhen& when, std::uint64_t total) {
  return when.exit_zero || (!when.iteration && when.file.empty() && total == 0);
}

bool reached_end(const FinishedWhen& when, std::uint64_t at, std::uint64_t total) {
  if (when.exit_zero) return true;
  if (when.iteration) return at >= *when.iteration;
  return when.file.empty() && (total == 0 || at >= total);
}

std::uint64_t samples_to_skip(const std::vector<Skip>& skips, Generation saved_by) {
  std::uint64_t samples = 0;
  for (const Skip& skip : skips)
    if (saved_by <= skip.through) samples += std::min(skip.samples, kMostSkipped);
  return std::min(samples, kMostSkipped);
}

}  // namespace stoker::wire
