// RunPublisher: published files are derived from rows, each row once, after any history.
#include <doctest/doctest.h>
#include <fmt/format.h>
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
  std::istringstream text(os::read_file(folder / "events.jsonl").value_or(""));
  for (std::string line; std::getline(text, line);)
    seqs.push_back(from_json_text<wire::PublishedEvent>(line, "line").value().seq);
  return seqs;
}

}  // namespace

TEST_CASE("publisher: rows again after a restart -> each is there once") {
  Folder folder;
  {
    RunPublisher publisher(folder.path);
    REQUIRE(publisher.append(rows(1, 3)));
  }
  RunPublisher publisher(folder.path);
  REQUIRE(publisher.open());
  CHECK(publisher.last() == Sequence(3));
  REQUIRE(publisher.append(rows(2, 5)));
  CHECK(published(folder) == std::vector<std::uint64_t>{1, 2, 3, 4, 5});
}

TEST_CASE("publisher: a torn last line -> cut off and written again") {
  Folder folder;
  {
    RunPublisher publisher(folder.path);
    REQUIRE(publisher.append(rows(1, 3)));
  }
  const auto size = std::filesystem::file_size(folder / "events.jsonl");
  std::filesystem::resize_file(folder / "events.jsonl", size - 10);
  RunPublisher publisher(folder.path);
  REQUIRE(publisher.open());
  CHECK(publisher.last() == Sequence(2));
  REQUIRE(publisher.append(rows(1, 3)));
  CHECK(published(folder) == std::vector<std::uint64_t>{1, 2, 3});
}

namespace {

std::pair<core::JournalRow, core::JournalRow> a_crash_and_its_end() {
  auto moved = row(1, core::SchedulerSees{}, "rank 3 on n02 exited with 137");
  moved.decision.from = "training";
  moved.decision.to = "recovering";
  auto again = row(2, core::SchedulerSees{}, "training again");
  again.decision.from = "recovering";
  again.decision.to = "training";
  return {moved, again};
}

}  // namespace

TEST_CASE(
    "publisher: an incident -> the story that `stoker chronicle` prints, once, after a restart "
    "too") {
  Folder folder;
  const auto [moved, again] = a_crash_and_its_end();
  const std::string story = core::chronicle({moved, again}, RunName("hello"));
  CHECK(story.find("Rank 3 on n02 exited with 137.") != std::string::npos);
  for (int life = 0; life < 2; ++life) {
    RunPublisher publisher(folder.path, RunName("hello"));
    REQUIRE(publisher.open());
    CHECK(publisher.wanted_after() == Sequence(0));
    REQUIRE(publisher.append({moved}));
    CHECK(os::read_file(folder / "chronicle.md")->find("This is not over.") != std::string::npos);
    REQUIRE(publisher.append({moved, again}));
    CHECK(*os::read_file(folder / "chronicle.md") == story);
  }
}

TEST_CASE("publisher: what an incident costs grows after its last row -> the story follows") {
  Folder folder;
  const auto [moved, again] = a_crash_and_its_end();
  RunPublisher publisher(folder.path, RunName("hello"));
  REQUIRE(publisher.append({moved, again}));
  wire::StatusDocument status;
  status.goodput = wire::StatusGoodput{};
  for (const double hours : {0.25, 1.5}) {
    status.goodput->incidents = {
        {"rank_crash", format_rfc3339(moved.event.wall), 100, 20, 60, hours / 8, hours}};
    REQUIRE(publisher.write_status(status));
    const std::string story = os::read_file(folder / "chronicle.md").value();
    CHECK(story.find(fmt::format("; {:.2f} GPU hours with what was repeated.", hours)) !=
          std::string::npos);
  }
}

TEST_CASE("publisher: the site -> no chronicle") {
  Folder folder;
  RunPublisher publisher(folder.path);
  REQUIRE(publisher.append(rows(1, 3)));
  CHECK_FALSE(os::exists(folder / "chronicle.md"));
}

TEST_CASE("publisher: events.jsonl that is a symbolic link -> refused") {
  Folder folder;
  REQUIRE(::symlink("/etc/passwd", (folder / "events.jsonl").c_str()) == 0);
  RunPublisher publisher(folder.path);
  CHECK_FALSE(publisher.open());
}
