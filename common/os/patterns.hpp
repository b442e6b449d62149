// Shell patterns (*, ?, [...]) of people, which may stand for a whole file system ("/*/*/*"): so
// many names are read and no more.
#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"

namespace stoker::os {

constexpr std::size_t kMostNames = 100'000;

// matching_paths(). Error: more than kMostNames names would have to be read.
Result<std::vector<std::string>> find_matching_paths(const std::string& pattern);

}  // namespace stoker::os
