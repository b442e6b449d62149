// samples.log: what is in force after restarts, torn lines and late writers.
#include "worker/train/data/samples_log.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <stdlib.h>

#include "common/os/files.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {

SamplesLine line_of(std::uint64_t iteration, std::uint32_t generation, std::uint32_t attempt,
                    std::uint64_t first) {
  return {Iteration(iteration),   first,           first + 7, {{0, 6}, {1, 2}},
          Generation(generation), Attempt(attempt)};
}

struct LogFile {
  std::string path;
  LogFile() {
    char name[] = "/tmp/stoker-samples-XXXXXX";
    path = std::string(::mkdtemp(name)) + "/samples.log";
  }
  ~LogFile() { std::filesystem::remove_all(std::filesystem::path(path).parent_path()); }
  void append(const std::vector<SamplesLine>& lines) const {
    auto log = SamplesLog::open(path);
    REQUIRE(log.has_value());
    for (const SamplesLine& line : lines) REQUIRE(log->append(line).has_value());
  }
};

}  // namespace

TEST_CASE("samples log: a line -> its text and back; any altered byte is refused") {
  const SamplesLine line = line_of(17, 3, 1, 1024);
  const std::string text = format_samples_line(line);
  CHECK(
      text.starts_with("iteration 17 | samples 1024-1031 | data sets 0:6 1:2 | generation 3.1 | "));
  const std::string body = text.substr(0, text.size() - 1);
  CHECK(parse_samples_line(body).value() == line);
  for (std::size_t i = 0; i < body.size(); ++i) {
    std::string bad = body;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    CHECK_FALSE(parse_samples_line(bad).has_value());
  }
  CHECK_FALSE(parse_samples_line("").has_value());
}

TEST_CASE("samples log: a restart repeats iterations -> the later attempt's lines, none twice") {
  const LogFile log;
  log.append(
      {line_of(1, 1, 1, 0), line_of(2, 1, 1, 8), line_of(3, 1, 1, 16), line_of(4, 1, 1, 24)});
  log.append(
      {line_of(3, 1, 2, 16)});  // resumed after 2: what the first attempt did from 3 on is void
  const auto history = read_samples_log(log.path);
  REQUIRE(history->lines.size() == 3);
  CHECK(history->lines.at(Iteration(3)).attempt == Attempt(2));
  CHECK_FALSE(history->lines.contains(Iteration(4)));
  log.append({line_of(2, 2, 1, 8), line_of(4, 1, 2, 24)});  // a rollback, then a late writer wakes
  const auto later = read_samples_log(log.path);
  REQUIRE(later->lines.size() == 2);
  CHECK(later->lines.at(Iteration(2)).generation == Generation(2));
}

TEST_CASE("samples log: torn and foreign lines -> skipped, counted, and the next line is whole") {
  const LogFile log;
  log.append({line_of(1, 1, 1, 0)});
  REQUIRE(os::append_file(log.path, "iteration 2 | samp", os::Durability::Cached).has_value());
  log.append({line_of(2, 1, 2, 8)});
  REQUIRE(os::append_file(log.path, std::string(3u << 20, 'x') + "\n", os::Durability::Cached)
              .has_value());
  log.append({line_of(3, 1, 2, 16)});
  const auto history = read_samples_log(log.path);
  CHECK(history->lines.size() == 3);
  CHECK(history->damaged == 2);
  CHECK_FALSE(read_samples_log(log.path + ".none").has_value());
}
