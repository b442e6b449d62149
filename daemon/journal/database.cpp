// Database: SQLite's result codes become Errors here and nowhere else.
#include "daemon/journal/database.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include "common/os/fd.hpp"

namespace stoker::daemon {
namespace {

constexpr std::string_view kDamaged = "damaged: ";

Unexpected sqlite_error(sqlite3* db, const std::string& path) {
  const int code = sqlite3_extended_errcode(db);
  const int system = sqlite3_system_errno(db);
  const int primary = code & 0xff;
  const bool io = primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN;
  if (primary == SQLITE_FULL || (io && (system == ENOSPC || system == EDQUOT || system == EFBIG)))
    return fail("the disk is full", path, std::string(kDiskFullHint));
  if (code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_FSYNC)  // a quota, a limit, a sick disk
    return fail("the disk cannot be written", path, std::string(kDiskFullHint));
  if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB)
    return damaged(sqlite3_errmsg(db), path);
  if (primary == SQLITE_BUSY)
    return fail("locked by another process", path, "is another stokerd running on it?");
  return fail(std::string("SQLite: ") + sqlite3_errmsg(db), path);
}

}  // namespace

Unexpected damaged(const std::string& how, const std::string& path) {
  return fail(std::string(kDamaged) + how, path);
}

bool is_damaged(const Error& error) {
  return error.what.starts_with(kDamaged);
}

Statement::Statement(sqlite3* db, sqlite3_stmt* statement, std::string path)
    : db_(db), statement_(statement), path_(std::move(path)) {}

void Statement::Finalize::operator()(sqlite3_stmt* s) const {
  sqlite3_finalize(s);
}

Statement& Statement::bind(int index, std::int64_t value) {
  STOKER_CHECK(sqlite3_bind_int64(statement_.get(), index, value) == SQLITE_OK, path_);
  return *this;
}
Statement& Statement::bind(int index, std::string_view text) {
  STOKER_CHECK(sqlite3_bind_text64(statement_.get(), index, text.data(), text.size(),
                                   SQLITE_TRANSIENT, SQLITE_UTF8) == SQLITE_OK,
               path_);
  return *this;
}
Statement& Statement::bind_blob(int index, std::string_view bytes) {
  STOKER_CHECK(sqlite3_bind_blob64(statement_.get(), index, bytes.data(), bytes.size(),
                                   SQLITE_TRANSIENT) == SQLITE_OK,
               path_);
  return *this;
}
Statement& Statement::bind_null(int index) {
  STOKER_CHECK(sqlite3_bind_null(statement_.get(), index) == SQLITE_OK, path_);
  return *this;
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  auto error = sqlite_error(db_, path_);
  sqlite3_reset(statement_.get());
  return error;
}

Status Statement::run() {
  for (;;) {
    STOKER_TRY(more, step());
    if (!more) break;
  }
  reset();
  return ok();
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}
std::string Statement::text(int column) const {
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  if (data == nullptr || size <= 0) return {};
  return std::string(static_cast<const char*>(data), static_cast<std::size_t>(size));
}
bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

void Database::Close::operator()(sqlite3* db) const {
  sqlite3_close_v2(db);
}

namespace {

// A rollback journal beside the database may name a "super-journal"; SQLite plays such a journal
// back and then deletes the file of that name, anywhere. stoker attaches no second database, so
// that none of its own journals names one. The name stands at the end, before these eight bytes
// (sqlite.org/fileformat2.html, rollback journal; pager.c, readSuperJournal).
Status refuse_named_file(const std::string& path) {
  constexpr unsigned char kMagic[] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
  const std::string journal = path + "-journal";
  const os::Fd file(::open(journal.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return errno == ENOENT ? ok() : fail(errno_error(errno, "cannot read it", journal));
  unsigned char end[sizeof kMagic] = {};
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  if (size < static_cast<off_t>(sizeof end) ||
      ::pread(file.get(), end, sizeof end, size - static_cast<off_t>(sizeof end)) !=
          static_cast<ssize_t>(sizeof end) ||
      !std::equal(std::begin(end), std::end(end), std::begin(kMagic)))
    return ok();
  return fail(
      "it names another file, which opening the journal would delete; none of stoker's does",
      journal, "somebody else has made it: move it away, and ask where it comes from");
}

}  // namespace

Result<Database> Database::open(const std::string& path, OpenMode mode) {
  STOKER_TRY_STATUS(refuse_named_file(path));
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  switch (mode) {
    case OpenMode::ReadWriteCreate: flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE; break;
    case OpenMode::ReadWrite: flags |= SQLITE_OPEN_READWRITE; break;
    case OpenMode::ReadOnly: flags |= SQLITE_OPEN_READONLY; break;
  }
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  if (raw == nullptr) return fail("out of memory", path);
  Database db(raw, path);
  if (code != SQLITE_OK) return sqlite_error(raw, path);
  sqlite3_busy_timeout(raw, 5000);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  return db;
}

Status Database::execute(const std::string& sql) {
  if (sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    return sqlite_error(db_.get(), path_);
  return ok();
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(db_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return sqlite_error(db_.get(), path_);
  return Statement(db_.get(), statement, path_);
}

Result<std::optional<std::string>> Database::value(std::string_view sql) {
  STOKER_TRY(statement, prepare(sql));
  STOKER_TRY(row, statement.step());
  if (!row) return std::optional<std::string>{};
  return std::optional<std::string>(statement.text(0));
}

Result<std::int64_t> Database::integer(std::string_view sql) {
  STOKER_TRY(statement, prepare(sql));
  STOKER_TRY(row, statement.step());
  if (!row) return std::int64_t{0};
  return statement.integer(0);
}

void Database::checkpoint_on_close(bool wanted) {
  sqlite3_db_config(db_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, wanted ? 0 : 1, nullptr);
}

Result<Transaction> Transaction::begin(Database& db) {
  STOKER_TRY_STATUS(db.execute("BEGIN IMMEDIATE"));
  return Transaction(db);
}
Transaction::~Transaction() {
  if (db_ != nullptr && !db_->execute("ROLLBACK")) {
    // SQLite rolled back by itself (disk full, I/O error): nothing is left to undo.
  }
}
Status Transaction::commit() {
  STOKER_TRY_STATUS(db_->execute("COMMIT"));
  db_ = nullptr;
  return ok();
}

}  // namespace stoker::daemon
