// Recovery: salvage (damaged file, then backups), close the holes, derive the intents, choose the
// state. Built in a new file that replaces the damaged one by rename at the very end.
#include "daemon/journal/recovery.hpp"

#include <cerrno>
#include <cstdio>
#include <fmt/format.h>
#include <sys/stat.h>

#include "common/os/files.hpp"
#include "daemon/journal/graft.hpp"
#include "daemon/journal/schema.hpp"
#include "daemon/journal/side_tables.hpp"
#include "daemon/journal/sqlite_journal.hpp"

namespace stoker::daemon {
namespace {

class Rebuild {
 public:
  explicit Rebuild(Database db) : db_(std::move(db)) {}

  Status begin() {
    STOKER_TRY_STATUS(configure(db_, false));
    STOKER_TRY_STATUS(db_.execute("PRAGMA journal_mode=DELETE"));
    STOKER_TRY_STATUS(migrate(db_, journal_migrations(), db_.path() + ".before"));
    STOKER_TRY(statement, db_.prepare(std::string(kInsertRow) + " ON CONFLICT (seq) DO NOTHING"));
    insert_.emplace(std::move(statement));
    return db_.execute("BEGIN IMMEDIATE");
  }

  // Another history: a row of the same number is another row there.
  Result<bool> contradicts(Database& source) {
    STOKER_TRY(ours, db_.prepare("SELECT seq, hash FROM rows ORDER BY seq"));
    auto theirs = source.prepare("SELECT hash FROM rows WHERE seq = ?1");
    if (!theirs) return false;  // unreadable: nothing of it is taken anyway
    for (;;) {
      STOKER_TRY(more, ours.step());
      if (!more) return false;
      theirs->bind(1, ours.integer(0));
      const auto there = theirs->step();
      if (!there) return false;
      if (*there) return theirs->text(0) != ours.text(1);
      theirs->reset();
    }
  }

  // Takes over every row of `source` whose content fits its hash. Behind an unreadable page the
  // reading goes on from the far end.
  Status take_rows(Database& source) {
    STOKER_TRY_STATUS(walk(source, "ORDER BY seq"));
    return walk(source, "ORDER BY seq DESC");
  }

  // Copies the rows of a table that can be read and mean something; the others stay behind, and
  // so does what is known already or does not fit the rows (SideTable::fits).
  Status take_table(Database& source, const SideTable& table, bool holds_state) {
    std::string places;
    for (std::size_t i = 0; i < table.columns.size(); ++i)
      places += fmt::format("{}?{}", i > 0 ? ", " : "", i + 1);
    const std::string names = names_of(table);
    auto rows = source.prepare(fmt::format("SELECT {} FROM {}", names, table.name));
    if (!rows && table.names_before != nullptr)  // a backup that an older version made
      rows = source.prepare(fmt::format("SELECT {} FROM {}", table.names_before, table.name));
    if (!rows) return ok();
    STOKER_TRY(newest, db_.integer("SELECT coalesce(max(seq), 0) FROM rows"));
    STOKER_TRY(insert, db_.prepare(fmt::format("INSERT INTO {} ({}) VALUES ({}) {}", table.name,
                                               names, places, table.on_conflict)));
    for (;;) {
      const auto more = rows->step();
      if (!more || !*more) return ok();
      if (table.good != nullptr && !table.good(*rows)) continue;
      if (table.fits != nullptr && !table.fits(*rows, newest, holds_state)) continue;
      for (std::size_t i = 0; i < table.columns.size(); ++i) {
        const int column = static_cast<int>(i);
        if (rows->is_null(column))
          insert.bind_null(column + 1);
        else if (table.columns[i].number)
          insert.bind(column + 1, rows->integer(column));
        else if (std::string_view(table.columns[i].name) == "hash")
          insert.bind_blob(column + 1, rows->text(column));
        else
          insert.bind(column + 1, rows->text(column));
      }
      STOKER_TRY_STATUS(insert.run());
    }
  }

  // Takes the state of `source` when it is intact and newer than the one that is there.
  Result<bool> take_state(Database& source) {
    const auto state = read_state(source);
    if (!state || !*state) return false;
    STOKER_TRY(known, db_.integer("SELECT coalesce(max(seq), -1) FROM state"));
    if (known >= static_cast<std::int64_t>((*state)->seq.value)) return false;
    STOKER_TRY_STATUS(db_.execute("DELETE FROM state; DELETE FROM run_states"));
    STOKER_TRY(states, StateTable::prepare(db_));
    STOKER_TRY_STATUS(states.write(**state));
    return true;
  }

  // Rows that do not follow those before them are of a branch that a restored journal has left.
  Status cut_branches() {
    STOKER_TRY(rows, db_.prepare("SELECT seq, prev_hash, hash FROM rows ORDER BY seq"));
    std::int64_t before = 0;
    std::string hash = first_prev_hash();
    for (;;) {
      STOKER_TRY(more, rows.step());
      if (!more) return ok();
      const std::int64_t seq = rows.integer(0);
      if (seq == before + 1 && rows.text(1) != hash) {
        rows.reset();
        return db_.execute(fmt::format("DELETE FROM rows WHERE seq >= {}", seq));
      }
      before = seq;
      hash = rows.text(2);
    }
  }

  // Rows without any copy become named holes with the hash that their successor remembers.
  Status close_holes(std::vector<std::int64_t>& lost) {
    STOKER_TRY(rows, db_.prepare("SELECT seq, prev_hash FROM rows WHERE lost = 0 ORDER BY seq"));
    std::vector<StoredRow> holes;
    std::int64_t expected = 1;
    for (;;) {
      STOKER_TRY(more, rows.step());
      if (!more) break;
      for (; expected < rows.integer(0); ++expected) {
        StoredRow hole;
        hole.seq = expected;
        hole.kind = "lost";
        hole.lost = true;
        if (expected + 1 == rows.integer(0)) hole.hash = rows.text(1);
        holes.push_back(hole);
      }
      expected = rows.integer(0) + 1;
    }
    rows.reset();
    // The newest rows have no successor; that the state knows them says that they were.
    STOKER_TRY(state, db_.integer("SELECT coalesce(max(seq), 0) FROM state"));
    for (; expected <= state; ++expected) {
      StoredRow hole;
      hole.seq = expected;
      hole.kind = "lost";
      hole.lost = true;
      holes.push_back(hole);
    }
    for (const StoredRow& hole : holes) {
      lost.push_back(hole.seq);
      STOKER_TRY_STATUS(write_stored_row(*insert_, hole));
    }
    return ok();
  }

  // Opens and closes intents as append() did, row by row.
  Status derive_intents() {
    STOKER_TRY(rows, db_.prepare(fmt::format("SELECT {} FROM rows WHERE lost = 0 ORDER BY seq",
                                             kRowColumns)));
    STOKER_TRY(open, db_.prepare("INSERT OR IGNORE INTO intents (key, seq, run, action, state) "
                                 "VALUES (?1, ?2, ?3, ?4, 'open')"));
    STOKER_TRY(close, db_.prepare("UPDATE intents SET state = ?2, result_seq = ?3 WHERE state = "
                                  "'open' AND (key = ?1 OR (json_extract(action, '$.kind') = "
                                  "'look_up_token' AND json_extract(action, '$.token') = ?1))"));
    for (;;) {
      STOKER_TRY(more, rows.step());
      if (!more) return ok();
      STOKER_TRY(row, from_stored(read_stored_row(rows), db_.path()));
      const auto seq = static_cast<std::int64_t>(row.seq.value);
      for (const core::Intent& intent : row.intents) {
        open.bind(1, intent.key.text).bind(2, seq).bind(3, intent.run.text);
        STOKER_TRY_STATUS(open.bind(4, to_json_text(intent.action)).run());
      }
      const auto closed = closed_by(row.event.body);
      if (!closed) continue;
      close.bind(1, closed->key.empty() ? closed->token : closed->key).bind(2, closed->state);
      STOKER_TRY_STATUS(close.bind(3, seq).run());
    }
  }

  // Without a state behind a hole nothing can bridge it: rows from the first hole after the state
  // on are given up, and the world is asked again.
  Status cut_after_state(const std::vector<std::int64_t>& lost) {
    STOKER_TRY(state, db_.integer("SELECT seq FROM state"));
    for (const std::int64_t seq : lost)
      if (seq > state) return db_.execute(fmt::format("DELETE FROM rows WHERE seq >= {}", seq));
    return ok();
  }

  Status finish(RecoveryReport& report) {
    STOKER_TRY(rows, db_.integer("SELECT coalesce(max(seq), 0) FROM rows"));
    STOKER_TRY(state, db_.integer("SELECT coalesce(max(seq), 0) FROM state"));
    report.rows = rows;
    report.state_seq = state;
    return db_.execute("COMMIT");
  }
  Result<std::int64_t> count() { return db_.integer("SELECT count(*) FROM rows"); }

 private:
  Status walk(Database& source, const std::string& order) {
    auto rows = source.prepare(fmt::format("SELECT {} FROM rows {}", kRowColumns, order));
    if (!rows) return ok();
    for (;;) {
      const auto more = rows->step();
      if (!more || !*more) return ok();
      const StoredRow row = read_stored_row(*rows);
      if (!row.lost && row_hash(row) == row.hash && from_stored(row, source.path()))
        STOKER_TRY_STATUS(write_stored_row(*insert_, row));
    }
  }

  Database db_;
  std::optional<Statement> insert_;
};

constexpr const char* kGrafted = ".grafted";

// The damaged file, or where its first page (header and tables' definitions) is unreadable, a copy
// with a first page as the migrations make it: the other pages are where they were.
Result<Database> open_damaged(const std::string& path) {
  auto as_it_is = Database::open(path, OpenMode::ReadWrite);
  if (as_it_is && check_schema(*as_it_is)) return as_it_is;
  const std::string copy = path + kGrafted;
  STOKER_TRY_STATUS(graft_first_page(path, copy));
  return Database::open(copy, OpenMode::ReadWrite);
}

// Rows from all; the state from the damaged file, else the newest of the backups. Cursors belong to
// the rows: one that stands behind the newest row that is left would skip lines whose events are
// lost, so the one of a backup is taken, and lines are read again rather than never.
Status rebuild(Rebuild& target, const std::string& damaged, const std::vector<std::string>& backups,
               RecoveryReport& report) {
  STOKER_TRY_STATUS(target.begin());
  struct Source {
    std::string name;
    Database db;
  };
  std::vector<Source> sources;
  if (auto source = open_damaged(damaged)) {
    STOKER_TRY_STATUS(target.take_rows(*source));
    STOKER_TRY(taken, target.take_state(*source));
    if (taken) report.state_from = "the journal";
    sources.push_back({"the journal", std::move(*source)});
  }
  STOKER_TRY(intact, target.count());
  for (const std::string& backup : backups) {
    auto source = Database::open(backup, OpenMode::ReadOnly);
    if (!source) continue;
    STOKER_TRY(other, target.contradicts(*source));
    if (other) continue;
    STOKER_TRY_STATUS(target.take_rows(*source));
    if (report.state_from != "the journal") {
      STOKER_TRY(taken, target.take_state(*source));
      if (taken) report.state_from = backup;
    }
    sources.push_back({backup, std::move(*source)});
  }
  STOKER_TRY_STATUS(target.cut_branches());
  STOKER_TRY(all, target.count());
  report.from_backup = static_cast<std::size_t>(std::max<std::int64_t>(all - intact, 0));
  STOKER_TRY_STATUS(target.close_holes(report.lost));
  STOKER_TRY_STATUS(target.cut_after_state(report.lost));
  STOKER_TRY_STATUS(target.derive_intents());
  for (Source& source : sources)
    for (const SideTable& table : side_tables())
      if (table.from_backups || source.name == "the journal")
        STOKER_TRY_STATUS(target.take_table(source.db, table, source.name == report.state_from));
  return target.finish(report);
}

}  // namespace

std::string RecoveryReport::message() const {
  std::string text = fmt::format("{} rows restored, {} of them from backups", rows, from_backup);
  if (!lost.empty()) {
    text += fmt::format("; lost for good: row {}", lost.front());
    if (lost.size() > 1) text += fmt::format(" and {} more", lost.size() - 1);
  }
  if (state_from.empty())
    text += rows > 0 ? "; the state is replayed from row 1" : "; no state was left";
  else
    text += "; state from " + state_from;
  if (!state_from.empty() && state_seq < rows)
    text += fmt::format(", replayed from row {}", state_seq);
  return text + "; the damaged file is kept as " + damaged_copy;
}

namespace {

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat one {
  }, other{};
  return ::stat(a.c_str(), &one) == 0 && ::stat(b.c_str(), &other) == 0 &&
         one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// Links the damaged file and what belongs to it aside; a recovery that failed before may have done
// so in the same second.
Result<std::string> keep_damaged(const std::string& path, WallTime now) {
  std::string stamp = format_rfc3339(now);
  std::erase(stamp, ':');
  const std::string first = path + ".damaged-" + stamp;
  std::string aside = first;
  for (int n = 2; os::exists(aside) && !is_same_file(path, aside); ++n)
    aside = fmt::format("{}.{}", first, n);
  for (const char* part : {"", "-wal", "-journal"})
    if (::link((path + part).c_str(), (aside + part).c_str()) != 0 && errno != ENOENT &&
        !is_same_file(path + part, aside + part))
      return fail(errno_error(errno, "cannot keep the damaged file", aside + part));
  return aside;
}

}  // namespace

Result<RecoveryReport> recover_journal(const std::string& path,
                                       const std::vector<std::string>& backups, WallTime now) {
  RecoveryReport report;
  STOKER_TRY(kept, keep_damaged(path, now));
  report.damaged_copy = kept;

  const std::string fresh = path + ".restoring";
  ::unlink(fresh.c_str());
  {
    STOKER_TRY(db, Database::open(fresh, OpenMode::ReadWriteCreate));
    Rebuild target(std::move(db));
    const Status rebuilt = rebuild(target, report.damaged_copy, backups, report);
    for (const char* part : {"", "-wal", "-shm", "-journal"})
      ::unlink((report.damaged_copy + kGrafted + part).c_str());
    if (!rebuilt) return fail(rebuilt.error());
  }
  for (const char* part : {"-wal", "-shm", "-journal"}) ::unlink((path + part).c_str());
  if (::rename(fresh.c_str(), path.c_str()) != 0)
    return fail(errno_error(errno, "cannot put the restored journal in place", path));
  return report;
}

}  // namespace stoker::daemon
