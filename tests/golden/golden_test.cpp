// Golden transcripts: every .txt beside this file is rerun through the engine in virtual time, its
// answers must come out the same, and its journal must replay to the same state bit for bit.
// `test_golden --rewrite` (or STOKER_REWRITE=1) renews the answers; the diff is then reviewed.
#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "sim/transcript.hpp"

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string first_difference(const std::string& expected, const std::string& actual) {
  std::istringstream a(expected);
  std::istringstream b(actual);
  std::string x;
  std::string y;
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
bool called_with(const std::string& word) {
  std::ifstream arguments("/proc/self/cmdline");
  for (std::string argument; std::getline(arguments, argument, '\0');)
    if (argument == word) return true;
  return false;
}

}  // namespace

TEST_CASE("golden: every transcript -> the decisions it had when it was reviewed") {
  const bool rewrite = std::getenv("STOKER_REWRITE") != nullptr || called_with("--rewrite");
  const char* only = std::getenv("STOKER_GOLDEN");
  std::size_t count = 0;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(STOKER_GOLDEN_DIR))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    if (only != nullptr && path.stem() != only) continue;
    ++count;
    const std::string text = read(path);
    CHECK_MESSAGE(text.find("\n----\n") != std::string::npos, path << " has no line of ----");
    const auto now = stoker::sim::rerun_transcript(text, path.filename().string());
    const std::string problem = now ? std::string() : now.error().message();
    CHECK_MESSAGE(problem.empty(), problem);
    if (!problem.empty()) continue;
    if (rewrite) {
      std::ofstream(path) << *now;
      continue;
    }
    const std::string difference = first_difference(text, *now);
    CHECK_MESSAGE(difference.empty(), path.filename().string() << ": " << difference);
  }
  if (only == nullptr) CHECK(count >= 30);
}
