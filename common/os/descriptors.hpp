// How many files this process may have open (ulimit -n).
#pragma once

#include <cstddef>

namespace stoker::os {

std::size_t descriptor_limit();

// Raises the soft limit, 1024 on many hosts, to the hard one; at most to kEnoughDescriptors, since
// programs that we start inherit it and some of them try every number.
void raise_descriptor_limit();

constexpr std::size_t kEnoughDescriptors = 65'536;

}  // namespace stoker::os
