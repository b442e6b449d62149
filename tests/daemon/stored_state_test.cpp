// The state in rows: what a turn writes, and that no row of another turn is believed.
#include "daemon/journal/stored_state.hpp"

#include <doctest/doctest.h>

#include "core/engine/engine.hpp"
#include "core/state.hpp"
#include "daemon/journal/hash_chain.hpp"
#include "daemon/journal/recovery.hpp"
#include "daemon/journal/schema.hpp"
#include "sim/ports.hpp"
#include "tests/daemon/journal_files.hpp"

using namespace stoker;
using namespace stoker::daemon;
using namespace stoker::daemon::test;

namespace {

const RunName kA("a"), kB("b"), kC("c");

core::StateRow with_runs(std::uint64_t seq, std::map<RunName, std::string> runs) {
  core::StateRow row = state(seq, "site " + std::to_string(seq));
  row.runs = std::move(runs);
  return row;
}

// Two turns; a copy after the first.
void two_turns(const Folder& folder) {
  auto journal = open(folder / "journal.db");
  REQUIRE(journal->append({row(1, note(1))},
                          with_runs(1, {{kA, "a one"}, {kB, "b one"}, {kC, "c one"}}), {}));
  REQUIRE(journal->copy_to(folder / "journal-2026-01-01.db"));
  REQUIRE(journal->append({row(2, note(2))}, with_runs(2, {{kA, "a two"}, {kC, ""}}), {}));
}

void change(const std::string& path, const std::string& sql) {
  auto db = Database::open(path, OpenMode::ReadWrite);
  REQUIRE(db);
  const Status done = db->execute(sql);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
}

struct Ignore final : core::EffectRunner {
  void start(const core::Intent&) override {}
};

}  // namespace

TEST_CASE("state: a turn of one run -> its row alone is written, and all come back") {
  Folder folder;
  two_turns(folder);
  auto journal = open(folder / "journal.db");
  const auto held = journal->load_state();
  REQUIRE(held);
  CHECK((*held)->seq == Sequence(2));
  CHECK((*held)->bytes == "site 2");
  CHECK((*held)->runs == std::map<RunName, std::string>{{kA, "a two"}, {kB, "b one"}});
  auto db = Database::open(folder / "journal.db", OpenMode::ReadOnly);
  CHECK(*db->integer("SELECT seq FROM run_states WHERE run = 'b'") == 1);
}

TEST_CASE(
    "state: a run's row wrong, gone, added or of another turn -> damage; the backup's state") {
  const std::pair<const char*, const char*> cases[] = {
      {"UPDATE run_states SET bytes = x'61' WHERE run = 'b'", "of \"b\" is damaged"},
      {"UPDATE run_states SET seq = 2 WHERE run = 'b'", "of \"b\" is damaged"},
      {"DELETE FROM run_states WHERE run = 'b'", "not those of one turn"},
      {"DELETE FROM run_states", "not those of one turn"},
      {"DELETE FROM state", "the state row is missing"},
      {"UPDATE state SET runs = zeroblob(16)", "the state row is damaged"},
      {"INSERT INTO run_states SELECT * FROM backup.run_states WHERE run = 'c'",
       "not those of one turn"},
      {"REPLACE INTO run_states SELECT * FROM backup.run_states WHERE run = 'a'",
       "not those of one turn"},
      {"REPLACE INTO state SELECT * FROM backup.state", "not those of one turn"}};
  for (const auto& damage : cases) {
    const std::string sql = damage.first, says = damage.second;
    CAPTURE(sql);
    Folder folder;
    const std::string path = folder / "journal.db", backup = folder / "journal-2026-01-01.db";
    two_turns(folder);
    change(path, "ATTACH '" + backup + "' AS backup; " + sql);
    const auto broken = SqliteJournal::open({path, false, {}});
    REQUIRE_FALSE(broken);
    CHECK_MESSAGE(broken.error().what.starts_with("damaged: "), broken.error().what);
    CHECK_MESSAGE(broken.error().what.find(says) != std::string::npos, broken.error().what);
    const auto report = recover_journal(path, {backup}, WallTime(1'800'000'000s));
    REQUIRE_MESSAGE(report, (report ? "" : report.error().message()));
    CHECK(report->state_from == backup);
    CHECK(report->rows == 2);
    const auto held = open(path)->load_state();
    REQUIRE(held);
    CHECK((*held)->seq == Sequence(1));
    CHECK((*held)->runs.size() == 3);
    CHECK((*held)->runs.at(kA) == "a one");
  }
}

TEST_CASE("state: a turn that does not get through -> the rows of the one before it") {
  Folder folder;
  two_turns(folder);
  auto journal = open(folder / "journal.db");
  CHECK_FALSE(journal->append({row(7, note(7))}, with_runs(7, {{kA, "a seven"}}), {}));
  REQUIRE(journal->append({row(3, note(3))}, with_runs(3, {{kB, "b three"}}), {}));
  const auto held = open(folder / "journal.db")->load_state();
  REQUIRE(held);
  CHECK((*held)->runs == std::map<RunName, std::string>{{kA, "a two"}, {kB, "b three"}});
}

TEST_CASE("state: a file of the second version -> its state is read, and gets a row for each run") {
  Folder folder;
  const std::string path = folder / "journal.db";
  sim::SimClock clock;
  Ignore effects;
  core::RunPolicy policy;
  policy.directory = "/runs/a";
  policy.train.command = {"train.sh"};
  const auto feed = [&](core::Engine& engine, const RunName& run) {
    policy.run = run;
    REQUIRE(engine.feed({{run, core::RunAdded{policy, "alice"}, {}}}));
  };
  std::string whole;
  {  // as version 2 wrote it: the runs inside
    auto journal = open(path);
    core::Engine engine(*journal, effects, clock, "build");
    REQUIRE(engine.start({}));
    feed(engine, kA);
    feed(engine, kB);
    whole = to_json_text(engine.state());
    const auto seq = static_cast<std::int64_t>(engine.last_sequence().value);
    auto db = Database::open(path, OpenMode::ReadWrite);
    auto put = db->prepare("UPDATE state SET build = 'build', bytes = ?1, hash = ?2");
    put->bind_blob(1, whole).bind_blob(2, state_hash(seq, 1, "build", whole, no_runs()));
    REQUIRE(put->run());
    put = fail("closed");
    change(path,
           "DROP TABLE run_states; ALTER TABLE state DROP COLUMN runs; "
           "PRAGMA user_version = 2");
  }
  {
    auto journal = open(path);
    CHECK((*journal->load_state())->bytes == whole);
    CHECK((*journal->load_state())->runs.empty());
    core::Engine engine(*journal, effects, clock, "build");
    REQUIRE(engine.start({}));
    CHECK(engine.state().runs.size() == 2);
    const auto held = journal->load_state();
    CHECK((*held)->runs.size() == 2);
    CHECK(from_json_text<core::SiteState>((*held)->bytes, "state")->runs.empty());
    CHECK(core::audit_journal(*journal));
  }
  auto copy = Database::open(path + ".before-migration", OpenMode::ReadOnly);
  CHECK(*copy->integer("PRAGMA user_version") == 2);
  const auto before = read_state(*copy);  // as a backup that is older than this version
  REQUIRE(before);
  CHECK((*before)->bytes == whole);
}
