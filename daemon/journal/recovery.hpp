// What is done about a damaged journal: the file is kept aside, what is intact in it is taken over,
// missing rows come from the backups, intents are derived again from the rows. Rows that no copy
// holds any more stay as named holes; the state that followed them is kept when it is intact.
#pragma once

#include <string>
#include <vector>

#include "common/time.hpp"
#include "daemon/journal/hash_chain.hpp"

namespace stoker::daemon {

struct RecoveryReport {
  std::string damaged_copy;        // where the damaged file lies now
  std::size_t from_backup = 0;     // rows taken from backups
  std::vector<std::int64_t> lost;  // rows that are nowhere any more
  std::int64_t rows = 0;           // of the restored journal
  std::int64_t state_seq = 0;      // the state row is of this row; older than `rows`: replay
  std::string state_from;          // "the journal", "<backup>", or "" = none found
  [[nodiscard]] std::string message() const;
};

// Rebuilds `path` from itself and `backups` (newest first). Error: nothing could be read or
// written.
Result<RecoveryReport> recover_journal(const std::string& path,
                                       const std::vector<std::string>& backups, WallTime now);

// <directory>/journal-<date>.db, newest first.
std::vector<std::string> list_backups(const std::string& directory);
// The newest backup's date is older than a day (or missing).
bool backup_is_due(const std::string& directory, WallTime now);
std::string backup_path(const std::string& directory, WallTime now);
// Keeps the newest `keep`.
void prune_backups(const std::string& directory, std::size_t keep);

}  // namespace stoker::daemon
