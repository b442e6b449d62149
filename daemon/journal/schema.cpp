// The journal's schema. Times are integer nanoseconds; JSON is canonical text (sorted keys).
#include "daemon/journal/schema.hpp"

#include <array>
#include <bit>
#include <fmt/format.h>

#include "common/os/files.hpp"

namespace stoker::daemon {
namespace {

// rows.hash = XXH3-128 over prev_hash and all other columns (hash_chain.hpp); cursors.hash over all
// other columns (side_tables.hpp). `lost` marks a row
// whose content damage has taken: only its hash is known, from its successor.
constexpr const char* kVersion1 = R"(
CREATE TABLE rows (
  seq INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  wall INTEGER NOT NULL,
  run TEXT NOT NULL,
  kind TEXT NOT NULL,
  event TEXT NOT NULL,
  decision TEXT NOT NULL,
  intents TEXT NOT NULL,
  prev_hash BLOB NOT NULL,
  hash BLOB NOT NULL,
  lost INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX rows_by_run ON rows (run, seq);
CREATE TABLE intents (
  key TEXT PRIMARY KEY,
  seq INTEGER NOT NULL,
  run TEXT NOT NULL,
  action TEXT NOT NULL,
  state TEXT NOT NULL,
  result_seq INTEGER
) STRICT;
CREATE INDEX intents_open ON intents (seq) WHERE state = 'open';
CREATE TABLE state (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  seq INTEGER NOT NULL,
  schema INTEGER NOT NULL,
  build TEXT NOT NULL,
  bytes BLOB NOT NULL,
  hash BLOB NOT NULL
) STRICT;
CREATE TABLE cursors (
  path TEXT PRIMARY KEY,
  inode INTEGER NOT NULL,
  head_hash INTEGER NOT NULL,
  position INTEGER NOT NULL,
  line INTEGER NOT NULL,
  parser_state TEXT NOT NULL,
  hash BLOB NOT NULL
) STRICT;
CREATE TABLE quarantine (
  digest TEXT PRIMARY KEY,
  wall INTEGER NOT NULL,
  run TEXT NOT NULL,
  kind TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;
)";

// cursors.seq: the row that the cursor came with; 0 = not known. Recovery takes no cursor that
// stands behind the rows that are left.
constexpr const char* kVersion2 = "ALTER TABLE cursors ADD COLUMN seq INTEGER NOT NULL DEFAULT 0";

// A row for the state of each run; state.runs: what they add up to (stored_state.hpp). The runs
// that an older version has left in state.bytes get their rows with the first append.
constexpr const char* kVersion3 = R"(
ALTER TABLE state ADD COLUMN runs BLOB NOT NULL DEFAULT x'00000000000000000000000000000000';
CREATE TABLE run_states (
  run TEXT PRIMARY KEY,
  seq INTEGER NOT NULL,
  bytes BLOB NOT NULL,
  hash BLOB NOT NULL
) STRICT;
)";

constexpr std::array kMigrations{Migration{"the first tables", kVersion1},
                                 Migration{"cursors know their row", kVersion2},
                                 Migration{"the state of each run is a row", kVersion3}};

Result<std::string> schema_text(Database& db) {
  STOKER_TRY(rows, db.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"));
  std::string text;
  for (;;) {
    STOKER_TRY(more, rows.step());
    if (!more) return text;
    for (int column = 0; column < 4; ++column) text += rows.text(column) + "\n";
  }
}

}  // namespace

Status check_schema(Database& db) {
  STOKER_TRY(ours, Database::open(":memory:", OpenMode::ReadWriteCreate));
  STOKER_TRY_STATUS(migrate(ours, journal_migrations(), ""));
  STOKER_TRY(expected, schema_text(ours));
  STOKER_TRY(found, schema_text(db));
  return found == expected ? ok() : damaged("its tables are not what they were", db.path());
}

std::span<const Migration> journal_migrations() {
  return kMigrations;
}

// Each commit is carried from the -wal into the file at once: SQLite drops a damaged -wal without a
// word, so as little as possible may stand in it alone.
Status configure(Database& db, bool exclusive) {
  if (exclusive) {
    STOKER_TRY_STATUS(db.execute("PRAGMA locking_mode=EXCLUSIVE"));
    STOKER_TRY_STATUS(db.execute("PRAGMA journal_mode=DELETE"));
  } else {
    STOKER_TRY_STATUS(db.execute("PRAGMA journal_mode=WAL"));
  }
  return db.execute(
      "PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA cell_size_check=ON;"
      "PRAGMA journal_size_limit=67108864; PRAGMA wal_autocheckpoint=1;"
      "PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0; PRAGMA cache_size=-1024");
}

Status migrate(Database& db, std::span<const Migration> migrations, const std::string& backup) {
  STOKER_TRY(application, db.integer("PRAGMA application_id"));
  STOKER_TRY(version, db.integer("PRAGMA user_version"));
  STOKER_TRY(tables, db.integer("SELECT count(*) FROM sqlite_schema"));
  const auto newest = static_cast<std::int64_t>(migrations.size());
  const auto wrong = static_cast<std::uint64_t>(application ^ kApplicationId);
  if (tables > 0 && (std::popcount(wrong) == 1 || (wrong == 0 && version == 0)))
    return damaged("a bit of its header is wrong", db.path());
  if (tables > 0 && wrong != 0)
    return fail("this is no journal of stoker", db.path(), "move it away, or name another --state");
  // Another version has other tables: with ours, one wrong bit is damage.
  if (version != newest && std::popcount(static_cast<std::uint64_t>(version ^ newest)) == 1 &&
      check_schema(db))
    return damaged("a bit of its header is wrong", db.path());
  if (version > newest)
    return fail(
        fmt::format("written by a newer stoker (format {}, this one knows {})", version, newest),
        db.path(), "start the newer stokerd, or name another --state");
  if (version == newest) return ok();
  if (version > 0) {
    ::unlink(backup.c_str());
    STOKER_TRY(copy, db.prepare("VACUUM INTO ?1"));
    STOKER_TRY_STATUS(copy.bind(1, backup).run());
  }
  for (std::int64_t next = version; next < newest; ++next) {
    STOKER_TRY(transaction, Transaction::begin(db));
    STOKER_TRY_STATUS(db.execute(migrations[static_cast<std::size_t>(next)].sql));
    STOKER_TRY_STATUS(db.execute(
        fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", kApplicationId, next + 1)));
    STOKER_TRY_STATUS(transaction.commit());
  }
  return ok();
}

}  // namespace stoker::daemon
