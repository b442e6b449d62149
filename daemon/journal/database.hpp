// Database and Statement: the one adapter over SQLite's C interface. Owned and used by one thread.
// Every failure is an Error that names the file; a full disk is distinguished
// (is_disk_full), because the daemon then waits instead of giving up.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace stoker::daemon {

// The hint of every Error of a disk that is full or cannot be written: how the daemon knows.
inline constexpr std::string_view kDiskFullHint =
    "make room; nothing is done until the journal can write again";
inline bool is_disk_full(const Error& error) {
  return error.hint == kDiskFullHint;
}

// An Error of a file that is not what was written: restore.cpp undoes it from the backups.
Unexpected damaged(const std::string& how, const std::string& path);
bool is_damaged(const Error& error);

class Statement {
 public:
  Statement(sqlite3* db, sqlite3_stmt* statement, std::string path);

  Statement& bind(int index, std::int64_t value);
  Statement& bind(int index, std::string_view text);
  Statement& bind_blob(int index, std::string_view bytes);
  Statement& bind_null(int index);

  // True: a row is there; false: done.
  Result<bool> step();
  // Runs to the end and makes it ready for new values.
  Status run();
  void reset();

  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] std::string text(int column) const;  // text or blob
  [[nodiscard]] bool is_null(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* s) const;
  };
  sqlite3* db_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::string path_;
};

enum class OpenMode { ReadWriteCreate, ReadWrite, ReadOnly };

class Database {
 public:
  static Result<Database> open(const std::string& path, OpenMode mode);

  Status execute(const std::string& sql);
  Result<Statement> prepare(std::string_view sql);
  // The first column of the first row; empty when there is no row.
  Result<std::optional<std::string>> value(std::string_view sql);
  Result<std::int64_t> integer(std::string_view sql);
  [[nodiscard]] const std::string& path() const { return path_; }
  // False keeps the WAL file when the last connection closes: another process may read on.
  void checkpoint_on_close(bool wanted);

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  Database(sqlite3* db, std::string path) : db_(db), path_(std::move(path)) {}
  std::unique_ptr<sqlite3, Close> db_;
  std::string path_;
};

// BEGIN IMMEDIATE … COMMIT; rolls back when it is destroyed before commit().
class Transaction {
 public:
  static Result<Transaction> begin(Database& db);
  Transaction(Transaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status commit();

 private:
  explicit Transaction(Database& db) : db_(&db) {}
  Database* db_;
};

}  // namespace stoker::daemon
