#include "wire/orders.hpp"

STOKER_JSON_ONCE_SOURCE(stoker::wire::Orders)
STOKER_JSON_ONCE_SOURCE(stoker::wire::Start)

namespace stoker::wire {

std::uint64_t samples_to_skip(const std::vector<Skip>& skips, Generation saved_by) {
  std::uint64_t samples = 0;
  for (const Skip& skip : skips)
    if (saved_by <= skip.through) samples += skip.samples;
  return samples;
}

}  // namespace stoker::wire
