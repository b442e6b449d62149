// Opens the journal of a state directory, restoring it first where it is damaged. A file that is
// missing or empty beside backups is damage too: a first start has no backups.
#pragma once

#include <string>
#include <vector>

#include "daemon/journal/sqlite_journal.hpp"

namespace stoker::daemon {

struct OpenedJournal {
  std::unique_ptr<SqliteJournal> journal;
  std::vector<std::string> announcements;  // what was damaged and what was done, for the log
};

// `backups`: newest first.
Result<OpenedJournal> open_or_restore(const JournalOptions& options,
                                      const std::vector<std::string>& backups, WallTime now);

// Error: the journal has no rows, although the site's published list names runs that were under
// supervision. Starting without them would leave their jobs alone, so a person decides.
Status check_not_forgotten(const SqliteJournal& journal, const std::string& published);

}  // namespace stoker::daemon
