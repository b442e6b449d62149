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

// Whether an archive can hold an entry of this name, below a folder of at most kLongestFolder
// bytes. Who collects leaves the others out.
inline constexpr std::size_t kLongestFolder = 96;
bool can_hold(const std::string& name);

// All of them below `folder`/; mode 0600. A name that the archive cannot hold is an error.
Status write_archive(const std::string& path, const std::string& folder,
                     const std::vector<Entry>& entries, WallTime at);

}  // namespace stoker::cli::support
