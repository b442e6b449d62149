// SqliteJournal: the chain's last hash is kept in memory and moves on only after COMMIT.
#include "daemon/journal/sqlite_journal.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "daemon/journal/schema.hpp"
#include "daemon/journal/side_tables.hpp"

namespace stoker::daemon {

Result<std::unique_ptr<SqliteJournal>> SqliteJournal::open(const JournalOptions& options) {
  STOKER_TRY(db, Database::open(options.path, OpenMode::ReadWriteCreate));
  STOKER_TRY_STATUS(configure(db, options.exclusive));
  STOKER_TRY_STATUS(migrate(db, journal_migrations(), options.path + ".before-migration"));
  STOKER_TRY_STATUS(check_schema(db));
  STOKER_TRY(damage, verify_chain(db));
  if (damage.any()) return damaged(damage.message(), options.path);
  std::unique_ptr<SqliteJournal> journal(new SqliteJournal(std::move(db)));
  STOKER_TRY_STATUS(journal->prepare(options));
  return journal;
}

Status SqliteJournal::prepare(const JournalOptions& options) {
  fence_ = options.fence;
  STOKER_TRY(newest, db_.prepare("SELECT seq, hash FROM rows ORDER BY seq DESC LIMIT 1"));
  STOKER_TRY(there, newest.step());
  last_ = Sequence(there ? static_cast<std::uint64_t>(newest.integer(0)) : 0);
  last_hash_ = there ? newest.text(1) : first_prev_hash();

  const auto keep = [this](std::optional<Statement>& into, const char* sql) -> Status {
    STOKER_TRY(statement, db_.prepare(sql));
    into.emplace(std::move(statement));
    return ok();
  };
  STOKER_TRY_STATUS(keep(insert_row_, kInsertRow));
  STOKER_TRY_STATUS(keep(insert_intent_,
                         "INSERT INTO intents (key, seq, run, action, state) "
                         "VALUES (?1, ?2, ?3, ?4, 'open')"));
  STOKER_TRY_STATUS(keep(close_intent_,
                         "UPDATE intents SET state = ?2, result_seq = ?3 "
                         "WHERE key = ?1 AND state = 'open'"));
  STOKER_TRY_STATUS(keep(close_look_up_,
                         "UPDATE intents SET state = ?2, result_seq = ?3 WHERE state = 'open' "
                         "AND json_extract(action, '$.kind') = 'look_up_token' "
                         "AND json_extract(action, '$.token') = ?1"));
  STOKER_TRY(states, StateTable::prepare(db_));
  states_.emplace(std::move(states));
  return keep(put_cursor_,
              "INSERT INTO cursors (path, inode, head_hash, position, line, parser_state, hash, "
              "seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (path) DO UPDATE SET "
              "inode = ?2, head_hash = ?3, position = ?4, line = ?5, parser_state = ?6, hash = ?7, "
              "seq = ?8");
}

Status SqliteJournal::insert_row(const core::JournalRow& row, std::string& prev_hash) {
  StoredRow stored = to_stored(row);
  stored.prev_hash = prev_hash;
  stored.hash = row_hash(stored);
  prev_hash = stored.hash;
  STOKER_TRY_STATUS(write_stored_row(*insert_row_, stored));
  for (const core::Intent& intent : row.intents) {
    insert_intent_->bind(1, intent.key.text).bind(2, stored.seq).bind(3, intent.run.text);
    STOKER_TRY_STATUS(insert_intent_->bind(4, to_json_text(intent.action)).run());
  }
  return ok();
}

Status SqliteJournal::close_by_event(const core::JournalRow& row) {
  const auto closed = closed_by(row.event.body);
  if (!closed) return ok();
  Statement& statement = closed->key.empty() ? *close_look_up_ : *close_intent_;
  statement.bind(1, closed->key.empty() ? closed->token : closed->key).bind(2, closed->state);
  return statement.bind(3, static_cast<std::int64_t>(row.seq.value)).run();
}

Status SqliteJournal::put_cursors(const std::vector<core::Cursor>& cursors, Sequence last) {
  const auto number = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
  const std::int64_t seq = number(last.value);
  for (const core::Cursor& c : cursors) {
    put_cursor_->bind(1, c.path).bind(2, number(c.inode)).bind(3, number(c.head_hash));
    put_cursor_->bind(4, number(c.offset)).bind(5, number(c.line)).bind(6, c.parser_state);
    put_cursor_->bind_blob(7, cursor_hash(c, seq)).bind(8, seq);
    STOKER_TRY_STATUS(put_cursor_->run());
  }
  return ok();
}

Status SqliteJournal::append(const std::vector<core::JournalRow>& rows, const core::StateRow& state,
                             const std::vector<core::Cursor>& cursors) {
  const std::vector<EffectKey> closing = std::exchange(to_close_, {});
  if (fence_) STOKER_TRY_STATUS(fence_());
  STOKER_TRY(transaction, Transaction::begin(db_));
  std::string hash = last_hash_;
  Sequence last = last_;
  for (const core::JournalRow& row : rows) {
    if (row.seq != last.next())
      return fail(fmt::format("row {} after row {}", row.seq.value, last.value), path());
    last = row.seq;
    STOKER_TRY_STATUS(insert_row(row, hash));
    STOKER_TRY_STATUS(close_by_event(row));
  }
  for (const EffectKey& key : closing) {
    close_intent_->bind(1, key.text).bind(2, "done");
    STOKER_TRY_STATUS(close_intent_->bind(3, static_cast<std::int64_t>(last.value)).run());
  }
  STOKER_TRY_STATUS(states_->write(state));
  STOKER_TRY_STATUS(put_cursors(cursors, last));
  STOKER_TRY_STATUS(transaction.commit());
  last_hash_ = hash;
  last_ = last;
  return ok();
}

Result<std::optional<core::StateRow>> SqliteJournal::load_state() {
  return read_state(db_);
}

Result<std::vector<core::JournalRow>> SqliteJournal::rows_after(Sequence seq, std::size_t limit) {
  return select_rows("seq > ?1", seq, limit);
}
Result<std::vector<core::JournalRow>> SqliteJournal::intact_rows_of(
    const std::vector<RunName>& names, Sequence after, std::size_t limit) {
  Json texts = Json::array();
  for (const RunName& name : names) texts.push_back(name.text);
  return select_rows("run IN (SELECT value FROM json_each(?3)) AND seq > ?1 AND lost = 0", after,
                     limit, dump_json(texts));
}

Result<std::vector<core::JournalRow>> SqliteJournal::asked_rows_after(Sequence seq,
                                                                      std::size_t limit) {
  return select_rows("seq > ?1 AND lost = 0 AND kind = 'operator_asked'", seq, limit);
}

// `names`: a third value of the condition, which is of runs then and has an index.
Result<std::vector<core::JournalRow>> SqliteJournal::select_rows(const char* where, Sequence seq,
                                                                 std::size_t limit,
                                                                 const std::string& names) {
  STOKER_TRY(rows, db_.prepare(fmt::format("SELECT {} FROM rows{} WHERE {} ORDER BY seq LIMIT ?2",
                                           kRowColumns,
                                           names.empty() ? "" : " INDEXED BY rows_by_run", where)));
  rows.bind(1, static_cast<std::int64_t>(seq.value)).bind(2, static_cast<std::int64_t>(limit));
  if (!names.empty()) rows.bind(3, names);
  std::vector<core::JournalRow> out;
  for (;;) {
    STOKER_TRY(more, rows.step());
    if (!more) return out;
    STOKER_TRY(row, from_stored(read_stored_row(rows), path()));
    out.push_back(std::move(row));
  }
}

Result<std::vector<core::Intent>> SqliteJournal::open_intents() {
  STOKER_TRY(rows, db_.prepare("SELECT key, run, action FROM intents WHERE state = 'open' "
                               "ORDER BY seq, rowid"));
  std::vector<core::Intent> out;
  for (;;) {
    STOKER_TRY(more, rows.step());
    if (!more) return out;
    STOKER_TRY(action, from_json_text<core::Action>(rows.text(2), path() + ": " + rows.text(0)));
    out.push_back({EffectKey(rows.text(0)), RunName(rows.text(1)), std::move(action)});
  }
}

Status SqliteJournal::close_intent(const EffectKey& key) {
  to_close_.push_back(key);
  return ok();
}

Result<std::vector<core::Cursor>> SqliteJournal::cursors() {
  STOKER_TRY(rows, db_.prepare("SELECT path, inode, head_hash, position, line, parser_state "
                               "FROM cursors ORDER BY path"));
  std::vector<core::Cursor> out;
  for (;;) {
    STOKER_TRY(more, rows.step());
    if (!more) return out;
    core::Cursor cursor;
    cursor.path = rows.text(0);
    cursor.inode = static_cast<std::uint64_t>(rows.integer(1));
    cursor.head_hash = static_cast<std::uint64_t>(rows.integer(2));
    cursor.offset = static_cast<std::uint64_t>(rows.integer(3));
    cursor.line = static_cast<std::uint64_t>(rows.integer(4));
    cursor.parser_state = rows.text(5);
    out.push_back(std::move(cursor));
  }
}

Result<std::optional<std::pair<Instant, WallTime>>> SqliteJournal::last_times() {
  using Times = std::optional<std::pair<Instant, WallTime>>;
  STOKER_TRY(row,
             db_.prepare("SELECT at, wall FROM rows WHERE lost = 0 ORDER BY seq DESC LIMIT 1"));
  STOKER_TRY(there, row.step());
  if (!there) return Times{};
  return Times({Instant(Duration(row.integer(0))), WallTime(Duration(row.integer(1)))});
}

Result<std::string> SqliteJournal::last_kind() {
  STOKER_TRY(kind, db_.value("SELECT kind FROM rows ORDER BY seq DESC LIMIT 1"));
  return kind.value_or("");
}

Status SqliteJournal::quarantine(const std::string& digest, WallTime wall, const RunName& run,
                                 const std::string& kind, const std::string& body) {
  STOKER_TRY(insert, db_.prepare("INSERT OR REPLACE INTO quarantine (digest, wall, run, kind, body)"
                                 " VALUES (?1, ?2, ?3, ?4, ?5)"));
  insert.bind(1, digest).bind(2, wall.time_since_epoch().count()).bind(3, run.text);
  return insert.bind(4, kind).bind(5, body).run();
}

Status SqliteJournal::copy_to(const std::string& path) {
  const std::string aside = path + ".new";
  ::unlink(aside.c_str());
  STOKER_TRY(copy, db_.prepare("VACUUM INTO ?1"));
  if (auto status = copy.bind(1, aside).run(); !status) {
    ::unlink(aside.c_str());
    return fail(status.error());
  }
  if (const os::Fd file(::open(aside.c_str(), O_RDONLY | O_CLOEXEC)); ::fsync(file.get()) != 0)
    return fail(errno_error(errno, "cannot write the copy", aside));
  if (::rename(aside.c_str(), path.c_str()) != 0)
    return fail(errno_error(errno, "cannot rename the copy", path));
  const auto slash = path.rfind('/');
  return os::sync_directory(slash == std::string::npos ? "." : path.substr(0, slash));
}

}  // namespace stoker::daemon
