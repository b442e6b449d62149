// SqliteJournal on real files: what comes back, what a flipped bit, a newer version, a full disk
// and kill -9 do to it.
#include "daemon/journal/sqlite_journal.hpp"

#include <csignal>
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "daemon/journal/recovery.hpp"
#include "daemon/journal/schema.hpp"
#include "daemon/journal/side_tables.hpp"
#include "tests/daemon/journal_files.hpp"

using namespace stoker;
using namespace stoker::daemon;
using namespace stoker::daemon::test;

TEST_CASE("journal: rows, state, cursors and intents -> come back as they were") {
  Folder folder;
  auto journal = open(folder / "journal.db");
  auto first = row(1, note(1));
  first.intents = {look_up("hello/1/0", "tok-1"), look_up("hello/1/1", "tok-2")};
  core::Cursor cursor{"/run/lead.jsonl", ~0ull, ~1ull, 77, 3, "{}"};
  REQUIRE(journal->append({first, row(2, note(2))}, state(2, "S"), {cursor}));
  journal = open(folder / "journal.db");
  CHECK(journal->last_sequence() == Sequence(2));
  const auto rows = journal->rows_after(Sequence(0), 10);
  REQUIRE(rows);
  REQUIRE(rows->size() == 2);
  CHECK((*rows)[0].event == first.event);
  CHECK((*rows)[0].decision == first.decision);
  CHECK((*rows)[0].intents == first.intents);
  CHECK((*journal->load_state())->bytes == "S");
  CHECK((*journal->cursors())[0] == cursor);
  CHECK(journal->open_intents()->size() == 2);
}

TEST_CASE("journal: rows of runs by their names -> those alone, in order, page by page") {
  Folder folder;
  auto journal = open(folder / "journal.db");
  std::vector<core::JournalRow> rows;
  for (std::uint64_t i = 1; i <= 9; ++i) {
    rows.push_back(row(i, note(i)));
    rows.back().event.run = RunName(i % 3 == 0 ? "" : i % 3 == 1 ? "a" : "b");
  }
  REQUIRE(journal->append(rows, state(9), {}));
  const auto seen = [&](const std::vector<RunName>& names, std::uint64_t after, std::size_t limit) {
    std::vector<std::uint64_t> out;
    const auto found = journal->intact_rows_of(names, Sequence(after), limit);
    for (const core::JournalRow& one : *found) out.push_back(one.seq.value);
    return out;
  };
  CHECK(seen({RunName("a")}, 0, 10) == std::vector<std::uint64_t>{1, 4, 7});
  CHECK(seen({RunName("a"), RunName("b")}, 1, 3) == std::vector<std::uint64_t>{2, 4, 5});
  CHECK(seen({RunName()}, 3, 10) == std::vector<std::uint64_t>{6, 9});
  CHECK(seen({RunName("c")}, 0, 10).empty());
}

TEST_CASE("journal: a result event -> closes its intent in the same transaction") {
  Folder folder;
  auto journal = open(folder / "journal.db");
  auto first = row(1, note(1));
  first.intents = {look_up("hello/1/0", "tok-1"), look_up("hello/1/1", "tok-2")};
  REQUIRE(journal->append({first}, state(1), {}));
  REQUIRE(journal->append({row(2, core::TokenLookedUp{Token("tok-2"), false, {}})}, state(2), {}));
  REQUIRE(journal->open_intents()->size() == 1);
  REQUIRE(journal->append(
      {row(3, core::EffectFailed{EffectKey("hello/1/0"), "look_up_token", "x"})}, state(3), {}));
  CHECK(journal->open_intents()->empty());
}

TEST_CASE("journal: a rollback journal beside it names another file -> refused, the file stays") {
  Folder folder;
  open(folder / "journal.db");
  folder.write("precious", "of somebody");
  const std::string name = folder / "precious", magic("\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", 8);
  const auto number = [](std::uint32_t value) {  // big-endian
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xffu);
    return bytes;
  };
  std::uint32_t sum = 0;
  for (const char c : name) sum += static_cast<std::uint32_t>(static_cast<int>(c));
  std::string hot = magic + number(0) + number(0x1234) + number(1) + number(512) + number(4096);
  hot.resize(512, '\0');
  hot += number(0x40000000u / 4096 + 1) + name + number(static_cast<std::uint32_t>(name.size())) +
         number(sum) + magic;
  folder.write("journal.db-journal", hot);
  const auto opened = SqliteJournal::open({folder / "journal.db", false, {}});
  REQUIRE_FALSE(opened);
  CHECK(opened.error().message().find("journal.db-journal") != std::string::npos);
  CHECK(std::filesystem::exists(folder / "precious"));
}

TEST_CASE("journal: a gap in the sequence -> refused, nothing written") {
  Folder folder;
  auto journal = open(folder / "journal.db");
  CHECK_FALSE(journal->append({row(2, note(2))}, state(2), {}));
  CHECK(journal->rows_after(Sequence(0), 10)->empty());
}

TEST_CASE("journal: a flipped bit in a row -> the row is named; restored from the backup") {
  Folder folder;
  const std::string path = folder / "journal.db";
  fill(path, 30);
  { REQUIRE(open(path)->copy_to(folder / "journal-2026-01-01.db")); }
  {
    auto journal = open(path);
    for (std::uint64_t n = 31; n <= 40; ++n)
      REQUIRE(journal->append({row(n, note(n))}, state(n, "state " + std::to_string(n)), {}));
  }
  flip(path, "answer 17 was");
  const auto broken = SqliteJournal::open({path, false, {}});
  REQUIRE_FALSE(broken);
  CHECK(broken.error().message().find("row 17 is damaged") != std::string::npos);

  const auto report =
      recover_journal(path, {folder / "journal-2026-01-01.db"}, WallTime(1'800'000'000s));
  REQUIRE_MESSAGE(report, (report ? "" : report.error().message()));
  CHECK(report->from_backup == 1);
  CHECK(report->lost.empty());
  CHECK(report->rows == 40);
  auto journal = open(path);
  CHECK(std::get<core::SchedulerBlind>((*journal->rows_after(Sequence(16), 1))[0].event.body).why ==
        "answer 17 was torn");
  CHECK((*journal->load_state())->bytes == "state 40");
  CHECK(journal->append({row(41, note(41))}, state(41), {}));
}

TEST_CASE("journal: a damaged row that no backup holds -> a named hole, the rest is kept") {
  Folder folder;
  const std::string path = folder / "journal.db";
  fill(path, 20);
  flip(path, "answer 17 was");
  const auto report = recover_journal(path, {}, WallTime(1'800'000'000s));
  REQUIRE(report);
  CHECK(report->lost == std::vector<std::int64_t>{17});
  auto journal = open(path);
  CHECK((*journal->load_state())->seq == Sequence(20));
  CHECK(journal->rows_after(Sequence(17), 10)->size() == 3);
  const auto hole = journal->rows_after(Sequence(0), 100);
  REQUIRE_FALSE(hole);
  CHECK(hole.error().object.find("row 17") != std::string::npos);
}

TEST_CASE("journal: a damaged state row -> the backup's state, all rows kept for the replay") {
  Folder folder;
  const std::string path = folder / "journal.db";
  fill(path, 20);
  { REQUIRE(open(path)->copy_to(folder / "journal-2026-01-01.db")); }
  {
    auto journal = open(path);
    REQUIRE(journal->append({row(21, note(21))}, state(21, "state twentyone"), {}));
  }
  flip(path, "state twentyone");
  CHECK_FALSE(SqliteJournal::open({path, false, {}}));
  const auto report =
      recover_journal(path, {folder / "journal-2026-01-01.db"}, WallTime(1'800'000'000s));
  REQUIRE(report);
  CHECK(report->rows == 21);
  CHECK(report->state_seq == 20);
  CHECK(open(path)->last_sequence() == Sequence(21));
}

TEST_CASE("journal: a damaged first page -> rows and state are read past it, without a backup") {
  for (const char* text : {"SQLite format 3", "CREATE TABLE rows", "prev_hash BLOB", "STKR"}) {
    Folder folder;
    const std::string path = folder / "journal.db";
    fill(path, 20);
    flip(path, text);
    const auto broken = SqliteJournal::open({path, false, {}});
    REQUIRE_FALSE(broken);
    CHECK_MESSAGE(broken.error().what.starts_with("damaged: "), text);
    const auto report = recover_journal(path, {}, WallTime(1'800'000'000s));
    REQUIRE_MESSAGE(report, (report ? "" : report.error().message()));
    CHECK_MESSAGE(report->rows == 20, text);
    CHECK(report->lost.empty());
    CHECK(report->state_from == "the journal");
    CHECK((*open(path)->load_state())->bytes == "state 20");
  }
}

TEST_CASE(
    "journal: the newest row damaged -> a hole that the state bridges; the next row follows") {
  Folder folder;
  const std::string path = folder / "journal.db";
  fill(path, 20);
  flip(path, "answer 20 was");
  const auto report = recover_journal(path, {}, WallTime(1'800'000'000s));
  REQUIRE(report);
  CHECK(report->lost == std::vector<std::int64_t>{20});
  {
    auto journal = open(path);
    CHECK(journal->last_sequence() == Sequence(20));
    CHECK(journal->append({row(21, note(21))}, state(21), {}));
  }
  CHECK(open(path)->last_sequence() == Sequence(21));
}

TEST_CASE("journal: a damaged state row and no backup -> all rows are there to replay it from") {
  Folder folder;
  const std::string path = folder / "journal.db";
  fill(path, 20);
  flip(path, "state 20");
  CHECK_FALSE(SqliteJournal::open({path, false, {}}));
  const auto report = recover_journal(path, {}, WallTime(1'800'000'000s));
  REQUIRE(report);
  CHECK(report->message().find("the state is replayed from row 1") != std::string::npos);
  auto journal = open(path);
  CHECK_FALSE(journal->load_state()->has_value());
  CHECK(journal->rows_after(Sequence(0), 100)->size() == 20);
}

TEST_CASE("journal: no database at all any more -> said so, a new one; with a backup -> from it") {
  Folder folder;
  const std::string path = folder / "journal.db";
  fill(path, 20);
  { REQUIRE(open(path)->copy_to(folder / "journal-2026-01-01.db")); }
  std::ofstream(path, std::ios::trunc) << "garbage\n";
  CHECK_FALSE(SqliteJournal::open({path, false, {}}));
  auto report = recover_journal(path, {folder / "journal-2026-01-01.db"}, WallTime(1'800'000'000s));
  REQUIRE_MESSAGE(report, (report ? "" : report.error().message()));
  CHECK(report->from_backup == 20);
  CHECK((*open(path)->load_state())->bytes == "state 20");
  std::ofstream(path, std::ios::trunc) << "garbage\n";
  report = recover_journal(path, {}, WallTime(1'800'000'100s));
  REQUIRE_MESSAGE(report, (report ? "" : report.error().message()));
  CHECK(report->message().find("no state was left") != std::string::npos);
  CHECK(open(path)->last_sequence() == Sequence(0));
}

TEST_CASE(
    "journal: a flipped bit in a cursor or an open intent -> named; the intent derived again") {
  Folder folder;
  const std::string path = folder / "journal.db";
  {
    auto journal = open(path);
    auto first = row(1, note(1));
    first.intents = {look_up("hello/1/0", "tok-1")};
    REQUIRE(journal->append(
        {first}, state(1),
        {{"/run/lead.jsonl", 1, 2, 77, 3, "{}"}, {"/run/other.jsonl", 1, 2, 78, 3, "{}"}}));
  }
  const auto change = [&](const std::string& sql) {
    auto db = Database::open(path, OpenMode::ReadWrite);
    REQUIRE(db->execute(sql));
  };
  change("UPDATE cursors SET position = 76 WHERE path = '/run/lead.jsonl'");
  auto broken = SqliteJournal::open({path, false, {}});
  REQUIRE_FALSE(broken);
  CHECK(broken.error().what == "damaged: cursors \"/run/lead.jsonl\" is damaged");
  REQUIRE(recover_journal(path, {}, WallTime(1'800'000'000s)));
  REQUIRE(open(path)->cursors()->size() == 1);
  CHECK(open(path)->cursors()->at(0).path == "/run/other.jsonl");

  change("UPDATE intents SET action = replace(action, 'tok-1', 'tok-3')");
  broken = SqliteJournal::open({path, false, {}});
  REQUIRE_FALSE(broken);
  CHECK(broken.error().what == "damaged: intents \"hello/1/0\" is damaged");
  REQUIRE(recover_journal(path, {}, WallTime(1'800'000'100s)));
  const auto intents = open(path)->open_intents();
  REQUIRE(intents->size() == 1);
  CHECK(to_json_text(intents->at(0).action).find("tok-1") != std::string::npos);
  change("UPDATE intents SET state = 'opeo'");
  CHECK_FALSE(SqliteJournal::open({path, false, {}}));
}

TEST_CASE("journal: a file of the first version -> its cursors are kept, and known as older") {
  Folder folder;
  const std::string path = folder / "journal.db";
  {
    auto db = Database::open(path, OpenMode::ReadWriteCreate);
    REQUIRE(migrate(*db, journal_migrations().first(1), folder / "copy.db"));
    auto insert = db->prepare(
        "INSERT INTO cursors (path, inode, head_hash, position, line, parser_state, hash) "
        "VALUES ('/run/lead.jsonl', 1, 2, 77, 3, '{}', ?1)");
    REQUIRE(insert);
    const core::Cursor cursor{"/run/lead.jsonl", 1, 2, 77, 3, "{}"};
    REQUIRE(insert->bind_blob(1, cursor_hash(cursor, 0)).run());
  }
  auto journal = open(path);
  REQUIRE(journal->cursors()->size() == 1);
  CHECK(journal->cursors()->at(0).offset == 77);
}

TEST_CASE("journal: a newer version and a foreign file -> refused in one line") {
  Folder folder;
  const std::string path = folder / "journal.db";
  fill(path, 1);
  {
    auto db = Database::open(path, OpenMode::ReadWrite);
    REQUIRE(db->execute("PRAGMA user_version=99"));
  }
  auto refused = SqliteJournal::open({path, false, {}});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("newer stoker") != std::string::npos);
  {
    auto db = Database::open(path, OpenMode::ReadWrite);
    REQUIRE(db->execute("PRAGMA user_version=1; PRAGMA application_id=7"));
  }
  refused = SqliteJournal::open({path, false, {}});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("no journal of stoker") != std::string::npos);
}

TEST_CASE("journal: one wrong bit in its version -> damage, unless the tables are a newer one's") {
  Folder folder;
  const std::string path = folder / "journal.db";
  fill(path, 1);
  const auto opening_fails_with = [&](const char* change) {
    auto db = Database::open(path, OpenMode::ReadWrite);
    REQUIRE(db->execute(change));
    db = fail("closed");
    return SqliteJournal::open({path, false, {}}).error().what;
  };
  for (const char* version : {"PRAGMA user_version=2", "PRAGMA user_version=7"})
    CHECK(opening_fails_with(version).starts_with("damaged: "));
  CHECK(opening_fails_with("ALTER TABLE rows ADD COLUMN note TEXT").find("newer stoker") !=
        std::string::npos);
}

TEST_CASE("journal: a migration -> a copy of the old file first, then the new tables") {
  Folder folder;
  const std::string path = folder / "journal.db";
  fill(path, 3);
  const Migration next[] = {journal_migrations()[0],
                            journal_migrations()[1],
                            journal_migrations()[2],
                            {"a note column", "ALTER TABLE rows ADD COLUMN note TEXT"}};
  auto db = Database::open(path, OpenMode::ReadWrite);
  REQUIRE(migrate(*db, next, folder / "copy.db"));
  CHECK(*db->integer("PRAGMA user_version") == 4);
  CHECK(*db->integer("SELECT count(*) FROM rows WHERE note IS NULL") == 3);
  auto copy = Database::open(folder / "copy.db", OpenMode::ReadOnly);
  CHECK(*copy->integer("SELECT count(*) FROM rows") == 3);
}

TEST_CASE("journal: no room -> append fails with the disk-full hint, works again with room") {
  Folder folder;
  const pid_t child = ::fork();
  if (child == 0) {  // RLIMIT_FSIZE stands for a full disk; it cannot be taken back for files
    ::signal(SIGXFSZ, SIG_IGN);
    auto journal = open(folder / "journal.db");
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit tight{256 * 1024, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &tight);
    std::uint64_t n = 1;
    Status status = ok();
    while (n < 4000 &&
           (status = journal->append({row(n, note(n), std::string(2000, 'x'))}, state(n), {})))
      ++n;
    if (status || !is_disk_full(status.error())) ::_exit(1);
    if (journal->append({row(n, note(n), std::string(2000, 'x'))}, state(n), {})) ::_exit(2);
    ::setrlimit(RLIMIT_FSIZE, &before);
    if (!journal->append({row(n, note(n), std::string(2000, 'x'))}, state(n), {})) ::_exit(3);
    ::_exit(journal->last_sequence() == Sequence(n) ? 0 : 4);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(SqliteJournal::open({folder / "journal.db", false, {}}));
}

TEST_CASE("journal: kill -9 at any moment -> no acknowledged row is lost, the chain holds") {
  Folder folder;
  const std::string path = folder / "journal.db";
  std::uint64_t acknowledged = 0;
  const Instant end = monotonic_now() + 3s;
  int kills = 0;
  while (monotonic_now() < end) {
    int pipe_fds[2];
    REQUIRE(::pipe(pipe_fds) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto journal = SqliteJournal::open({path, false, {}});
      if (!journal) ::_exit(1);
      for (std::uint64_t n = (*journal)->last_sequence().value + 1;; ++n) {
        if (!(*journal)->append({row(n, note(n))}, state(n), {})) ::_exit(2);
        if (::write(pipe_fds[1], &n, sizeof n) != sizeof n) ::_exit(3);
      }
    }
    ::close(pipe_fds[1]);
    ::usleep(static_cast<useconds_t>(8000 + (kills * 7919) % 150000));
    ::kill(child, SIGKILL);
    std::uint64_t n = 0;
    while (::read(pipe_fds[0], &n, sizeof n) == sizeof n) acknowledged = n;
    ::close(pipe_fds[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    ++kills;
  }
  auto journal = open(path);
  CHECK(journal->last_sequence().value >= acknowledged);
  CHECK(acknowledged > 20);
  CHECK(kills > 10);
}
