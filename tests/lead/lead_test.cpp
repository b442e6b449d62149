// The lead's transcripts: every .txt beside this file is rerun in virtual time and must come out
// the same. STOKER_REWRITE=1 renews the answers; the diff is then reviewed.
#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/lead/script.hpp"

namespace {

std::string read_whole(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> transcripts() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(STOKER_LEAD_DIR))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string difference(const std::string& expected, const std::string& actual) {
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

}  // namespace

TEST_CASE("lead: every transcript -> what the lead did when it was reviewed") {
  const char* only = std::getenv("STOKER_GOLDEN");
  std::size_t count = 0;
  for (const auto& path : transcripts()) {
    if (only != nullptr && path.stem() != only) continue;
    ++count;
    const std::string text = read_whole(path);
    const auto now = stoker::lead_test::rerun(text, path.filename().string());
    const std::string problem = now ? std::string() : now.error().message();
    CHECK_MESSAGE(problem.empty(), problem);
    if (!problem.empty()) continue;
    if (std::getenv("STOKER_REWRITE") != nullptr) {
      std::ofstream(path) << *now;
      continue;
    }
    const std::string differs = difference(text, *now);
    CHECK_MESSAGE(differs.empty(), path.filename().string() << ": " << differs);
  }
  if (only == nullptr) CHECK(count >= 25);
}

TEST_CASE("lead: all transcripts together -> every stage is entered in one of them") {
  std::string all;
  for (const auto& path : transcripts()) all += read_whole(path);
  for (const char* stage : {"looking", "benching", "choosing", "asking_port", "running", "judging",
                            "waiting", "concluding", "leaving", "left"})
    CHECK_MESSAGE(all.find(std::string("-> ") + stage + "\n") != std::string::npos, stage);
}
