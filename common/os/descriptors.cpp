#include "common/os/descriptors.hpp"

#include <algorithm>
#include <limits>
#include <sys/resource.h>

namespace stoker::os {

std::size_t descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<std::size_t>::max()
                                         : static_cast<std::size_t>(limit.rlim_cur);
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kEnoughDescriptors) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, kEnoughDescriptors);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace stoker::os
