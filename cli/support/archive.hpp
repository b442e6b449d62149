// A .tar.zst of a few texts: a ustar archive, compressed by libzstd. No temporary file but the
// archive itself, which appears whole or not at all.
#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker::cli::support {

struct Entry {
  std::string name, text;
};

// The longest name that an entry may have; longer ones are left out by who collects.
inline constexpr std::size_t kLongestName = 100;

// All of them below `folder`/; mode 0600. A name of more than kLongestName bytes is an
// error.
Status write_archive(const std::string& path, const std::string& folder,
                     const std::vector<Entry>& entries, WallTime at);

}  // namespace stoker::cli::support
