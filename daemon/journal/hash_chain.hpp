// The chain over the journal's rows: each row's hash covers its content and the hash before it, so
// that a flipped bit (which passes SQLite's own integrity check) names the row it sits in.
// XXH3-128: against damage, not against forgers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "daemon/journal/database.hpp"

namespace stoker::daemon {

// A row as it is stored: what the hash covers, in this order, each part with its length.
struct StoredRow {
  std::int64_t seq = 0, at = 0, wall = 0;
  std::string run, kind, event, decision, intents;
  std::string prev_hash, hash;  // 16 bytes; prev_hash of row 1 is 16 zero bytes
  bool lost = false;
};
std::string row_hash(const StoredRow& row);
// `runs`: the sum of the hashes of the runs' states (stored_state.hpp).
std::string state_hash(std::int64_t seq, std::int64_t schema, const std::string& build,
                       const std::string& bytes, const std::string& runs);
std::string run_state_hash(const std::string& run, std::int64_t seq, const std::string& bytes);
std::string no_runs();  // that sum without a run
std::string first_prev_hash();
std::string digest_of(const std::string& bytes);  // 16 bytes of XXH3-128

inline constexpr const char* kRowColumns =
    "seq, at, wall, run, kind, event, decision, intents, prev_hash, hash, lost";
StoredRow read_stored_row(const Statement& statement);  // of a SELECT of kRowColumns
Status write_stored_row(Statement& insert, const StoredRow& row);
inline constexpr const char* kInsertRow =
    "INSERT INTO rows (seq, at, wall, run, kind, event, decision, intents, prev_hash, hash, lost)"
    " VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)";

// What is wrong in a journal file, in words.
struct Damage {
  std::vector<std::int64_t> rows;     // whose content does not fit their hash, or that are missing
  std::optional<std::int64_t> first;  // the first of them
  std::string state;                  // of the state rows, "" = fine
  std::string structure;              // SQLite's integrity_check, "" = fine
  std::string beside;                 // of the tables beside the rows (side_tables.hpp)
  [[nodiscard]] bool any() const {
    return first || !state.empty() || !structure.empty() || !beside.empty();
  }
  [[nodiscard]] std::string message() const;
};
// Walks all rows. An Error only when the file cannot be read at all. Rows known as lost are no
// damage.
Result<Damage> verify_chain(Database& db);

}  // namespace stoker::daemon
