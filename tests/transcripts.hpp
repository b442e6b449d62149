// The transcripts of a folder (tests/golden, tests/lead): each is rerun in virtual time and must
// come out the same. STOKER_REWRITE=1 (or --rewrite) renews the answers, STOKER_GOLDEN=name takes
// only one; the diff is then reviewed like code.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace stoker::testing {

using Rerun = std::function<Result<std::string>(std::string_view file, const std::string& name)>;

inline std::string read_whole(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::vector<std::filesystem::path> transcripts(const char* folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// The first line that differs, both ways; "" when the texts are the same.
inline std::string difference(const std::string& expected, const std::string& actual) {
  std::istringstream a(expected), b(actual);
  std::string x, y;
  for (int line = 1;; ++line) {
    const bool more_x = static_cast<bool>(std::getline(a, x));
    const bool more_y = static_cast<bool>(std::getline(b, y));
    if (!more_x && !more_y) return "";
    if (x != y || more_x != more_y)
      return "line " + std::to_string(line) + "\n  expected: " + (more_x ? x : "(end)") +
             "\n  actual:   " + (more_y ? y : "(end)");
  }
}

// doctest leaves words that it does not know alone.
inline bool called_with(const std::string& word) {
  std::ifstream arguments("/proc/self/cmdline");
  for (std::string argument; std::getline(arguments, argument, '\0');)
    if (argument == word) return true;
  return false;
}

inline void check_transcripts(const char* folder, std::size_t at_least, const Rerun& rerun) {
  const bool rewrite = std::getenv("STOKER_REWRITE") != nullptr || called_with("--rewrite");
  const char* only = std::getenv("STOKER_GOLDEN");
  std::size_t count = 0;
  for (const auto& path : transcripts(folder)) {
    if (only != nullptr && path.stem() != only) continue;
    ++count;
    const std::string text = read_whole(path);
    const auto now = rerun(text, path.filename().string());
    const std::string problem = now ? std::string() : now.error().message();
    CHECK_MESSAGE(problem.empty(), problem);
    if (!problem.empty()) continue;
    if (rewrite) {
      std::ofstream(path) << *now;
      continue;
    }
    CHECK_MESSAGE(text.find("\n    ") != std::string::npos, path << " has no answers");
    const std::string differs = difference(text, *now);
    CHECK_MESSAGE(differs.empty(), path.filename().string() << ": " << differs);
  }
  if (only == nullptr) CHECK(count >= at_least);
}

}  // namespace stoker::testing
