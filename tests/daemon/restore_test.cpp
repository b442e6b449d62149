// What the next daemon makes of a journal that is damaged, empty or gone: the state, the rows and
// the cursors that belong together.
#include "daemon/journal/restore.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "daemon/journal/recovery.hpp"
#include "tests/daemon/journal_files.hpp"

using namespace stoker;
using namespace stoker::daemon;
using namespace stoker::daemon::test;

// The damaged file is cut so that its newest rows are lost, but its cursors are not.
TEST_CASE("journal: rows lost at the end -> cursors of the backup, no line is skipped") {
  Folder folder;
  const std::string path = folder / "journal.db", backup = folder / "journal-2026-01-01.db";
  const auto cursor = [](std::uint64_t n) {
    return core::Cursor{"/run/lead.jsonl", 1, 2, n, n, "{}"};
  };
  {
    auto journal = open(path);
    for (std::uint64_t n = 1; n <= 40; ++n) {
      REQUIRE(journal->append({row(n, note(n), std::string(1000, 'x'))}, state(n), {cursor(n)}));
      if (n == 10) REQUIRE(journal->copy_to(backup));
    }
  }
  {
    auto db = Database::open(path, OpenMode::ReadWrite);
    REQUIRE(db->execute("UPDATE state SET hash = x'00'; DELETE FROM rows WHERE seq > 30"));
  }
  CHECK_FALSE(SqliteJournal::open({path, false, {}}));
  const auto report = recover_journal(path, {backup}, WallTime(1'800'000'000s));
  REQUIRE_MESSAGE(report, (report ? "" : report.error().message()));
  CHECK(report->rows == 30);
  CHECK(report->state_seq == 10);
  REQUIRE(open(path)->cursors()->size() == 1);
  CHECK(open(path)->cursors()->at(0) == cursor(10));
}

TEST_CASE("journal: no byte, no row or no file beside backups -> damage, restored; alone: new") {
  for (const char* how : {"empty", "missing", "no rows"}) {
    Folder folder;
    const std::string path = folder / "journal.db", backup = folder / "journal-2026-01-01.db";
    fill(path, 20);
    { REQUIRE(open(path)->copy_to(backup)); }
    for (const char* part : {"", "-wal", "-shm"}) ::unlink((path + part).c_str());
    if (how == std::string("empty")) std::ofstream(path, std::ios::trunc).flush();
    if (how == std::string("no rows")) open(path);
    {
      const auto alone =
          open_or_restore({path + ".alone", false, {}}, {}, WallTime(1'800'000'000s));
      REQUIRE(alone);
      CHECK(alone->announcements.empty());
    }
    auto opened = open_or_restore({path, false, {}}, {backup}, WallTime(1'800'000'000s));
    REQUIRE_MESSAGE(opened, (opened ? "" : opened.error().message()));
    CHECK_MESSAGE(opened->journal->last_sequence() == Sequence(20), how);
    REQUIRE(opened->announcements.size() == 2);
    CHECK(opened->announcements[0].find("damaged: it ") != std::string::npos);
  }
}

TEST_CASE("journal: empty, no backup, but runs were published -> refused with their names") {
  Folder folder;
  auto journal = open(folder / "journal.db");
  std::filesystem::create_directories(folder / "published");
  CHECK(check_not_forgotten(*journal, folder / "published"));
  folder.write("published/site.json", R"({"version":1,"runs":[{"run":"hello","directory":"/x"}]})");
  const auto refused = check_not_forgotten(*journal, folder / "published");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("hello") != std::string::npos);
  REQUIRE(journal->append({row(1, note(1))}, state(1), {}));
  CHECK(check_not_forgotten(*journal, folder / "published"));
}

TEST_CASE("journal: a backup of another history -> nothing of it is taken") {
  Folder folder;
  const std::string path = folder / "journal.db", other = folder / "journal-2026-01-01.db";
  fill(path, 20);
  {
    auto journal = open(other);
    for (std::uint64_t n = 1; n <= 50; ++n)
      REQUIRE(journal->append({row(n, note(1000 + n))}, state(n, "another"), {}));
  }
  flip(path, "state 20");
  const auto report = recover_journal(path, {other}, WallTime(1'800'000'000s));
  REQUIRE(report);
  CHECK(report->rows == 20);
  CHECK(report->state_from.empty());
  CHECK(open(path)->last_sequence() == Sequence(20));
}
