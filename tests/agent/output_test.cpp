// Lines and block buffering of hostile output.
#include "worker/agent/rank/output.hpp"

#include <atomic>
#include <doctest/doctest.h>
#include <vector>

#include "common/os/files.hpp"
#include "tests/folder.hpp"
#include "worker/agent/storage/log_writer.hpp"

using namespace stoker;
using namespace stoker::agent;

namespace {
std::vector<std::string> split(const std::vector<std::string>& pieces, std::size_t limit = 100) {
  LineSplitter splitter(limit);
  std::vector<std::string> lines;
  const auto sink = [&lines](std::string_view line) { lines.emplace_back(line); };
  for (const auto& piece : pieces) splitter.feed(piece, sink);
  splitter.finish(sink);
  return lines;
}
using Lines = std::vector<std::string>;
}  // namespace

TEST_CASE("line splitter: newline, return and both -> one separator each") {
  CHECK(split({"a\nb\rc\r\nd"}) == Lines{"a", "b", "c", "d"});
  CHECK(split({"a\r", "\nb"}) == Lines{"a", "b"});
  CHECK(split({"\n\n"}) == Lines{"", ""});
  CHECK(split({"par", "ti", "al\n"}) == Lines{"partial"});
}

TEST_CASE("line splitter: a line beyond the limit -> cut, counted, nothing lost") {
  CHECK(split({std::string(25, 'x') + "\ny"}, 10) ==
        Lines{std::string(10, 'x'), std::string(10, 'x'), std::string(5, 'x'), "y"});
}

TEST_CASE("line splitter: NUL and bytes above 127 -> kept") {
  const std::string odd("a\0b\xff", 4);
  CHECK(split({odd + "\n"}) == Lines{odd});
}

TEST_CASE("buffering: three cut blocks with gaps -> block-buffered; whole lines -> not") {
  BufferingDetector detector, lines;
  Instant now{};
  for (int i = 0; i < 5; ++i) {
    now += 2s;
    detector.feed(std::string(8192, 'x'), now);
    lines.feed("iteration 1\n", now);
  }
  CHECK(detector.block_buffered());
  CHECK_FALSE(lines.block_buffered());
  BufferingDetector fast;  // full pipes of a loud rank are no evidence
  for (int i = 0; i < 50; ++i) fast.feed(std::string(65536, 'x'), now += 10ms);
  CHECK_FALSE(fast.block_buffered());
}

TEST_CASE("log writer: a queue that is too small -> the newest is kept, what is lost is counted") {
  const testing::Folder folder;
  const std::string path = folder / "main.log";
  {
    LogWriter writer({.queue_bytes = 1u << 20, .file_bytes = 1u << 30}, nullptr);
    const std::string burst = std::string((1u << 20) - 1, 'y') + "\n";
    for (int i = 0; i < 64; ++i) writer.append(path, burst);
    writer.append(path, "the end\n");
    CHECK(writer.flush(10s));
  }
  const auto text = os::read_file(path, 1u << 30);
  REQUIRE(text);
  CHECK(text->ends_with("the end\n"));
  CHECK(text->size() + (1u << 20) < (64u << 20));
  CHECK(text->find("bytes of output dropped here]") != std::string::npos);
}

TEST_CASE(
    "log writer: a file at its bound -> it becomes .1; a folder that is not there -> a notice") {
  const testing::Folder folder;
  std::atomic<int> notices{0};
  {
    LogWriter writer({.queue_bytes = 1u << 20, .file_bytes = 100},
                     [&notices](const std::string&) { ++notices; });
    for (int i = 0; i < 4; ++i) {
      writer.append(folder / "0.log", std::string(59, 'a') + "\n");
      CHECK(writer.flush(10s));
    }
    CHECK(notices == 0);
    writer.append(folder / "absent/0.log", "x");
    CHECK(writer.flush(10s));
    CHECK(notices == 1);
  }
  CHECK(os::read_file(folder / "0.log")->size() == 60);
  CHECK(os::read_file(folder / "0.log.1")->size() == 60);
}
