// RunPublisher: published files are derived from rows, each row once, whatever happened before.
#include <doctest/doctest.h>
#include <fstream>
#include <sstream>

#include "common/os/files.hpp"
#include "daemon/publish/run_publisher.hpp"
#include "tests/daemon/fixtures.hpp"

using namespace stoker;
using namespace stoker::daemon;
using namespace stoker::daemon::test;

namespace {

std::vector<core::JournalRow> rows(std::uint64_t from, std::uint64_t to) {
  std::vector<core::JournalRow> out;
  for (std::uint64_t n = from; n <= to; ++n) out.push_back(row(n, core::SchedulerSees{}));
  return out;
}

std::vector<std::uint64_t> published(const Folder& folder) {
  std::vector<std::uint64_t> seqs;
  std::istringstream text(os::read_file(folder.file("events.jsonl")).value_or(""));
  for (std::string line; std::getline(text, line);)
    seqs.push_back(from_json_text<wire::PublishedEvent>(line, "line").value().seq);
  return seqs;
}

}  // namespace

TEST_CASE("publisher: rows again after a restart -> each is there once") {
  Folder folder;
  {
    RunPublisher publisher(folder.path());
    REQUIRE(publisher.append(rows(1, 3)));
  }
  RunPublisher publisher(folder.path());
  REQUIRE(publisher.open());
  CHECK(publisher.last() == Sequence(3));
  REQUIRE(publisher.append(rows(2, 5)));
  CHECK(published(folder) == std::vector<std::uint64_t>{1, 2, 3, 4, 5});
}

TEST_CASE("publisher: a torn last line -> cut off and written again") {
  Folder folder;
  {
    RunPublisher publisher(folder.path());
    REQUIRE(publisher.append(rows(1, 3)));
  }
  const auto size = std::filesystem::file_size(folder.file("events.jsonl"));
  std::filesystem::resize_file(folder.file("events.jsonl"), size - 10);
  RunPublisher publisher(folder.path());
  REQUIRE(publisher.open());
  CHECK(publisher.last() == Sequence(2));
  REQUIRE(publisher.append(rows(1, 3)));
  CHECK(published(folder) == std::vector<std::uint64_t>{1, 2, 3});
}

TEST_CASE("publisher: a change of state -> one line of the chronicle, once") {
  Folder folder;
  auto moved = row(1, core::SchedulerSees{}, "rank 3 on n02 exited with 137\nsecond line");
  moved.decision.from = "training";
  moved.decision.to = "recovering";
  for (int i = 0; i < 2; ++i) {
    RunPublisher publisher(folder.path());
    REQUIRE(publisher.append({moved, row(2, core::SchedulerSees{})}));
  }
  const std::string text = *os::read_file(folder.file("chronicle.md"));
  CHECK(text.find("**recovering** rank 3 on n02 exited with 137 second line") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
}

TEST_CASE("publisher: events.jsonl that is a symbolic link -> refused") {
  Folder folder;
  REQUIRE(::symlink("/etc/passwd", folder.file("events.jsonl").c_str()) == 0);
  RunPublisher publisher(folder.path());
  CHECK_FALSE(publisher.open());
}
