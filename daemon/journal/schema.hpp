// The journal's tables and how older ones become newer: user_version counts the migrations, each
// runs in one transaction, a copy is made before the first. A newer file is refused.
#pragma once

#include <span>
#include <string>

#include "daemon/journal/database.hpp"

namespace stoker::daemon {

inline constexpr std::int64_t kApplicationId = 0x53544b52;  // "STKR"

struct Migration {
  const char* what;
  const char* sql;
};
// Migration i makes version i + 1 of version i. Never change one that was released.
std::span<const Migration> journal_migrations();

// Settings of the connection that writes. `exclusive` is for network file systems: no shared
// memory, so no WAL.
Status configure(Database& db, bool exclusive);

// Brings the file to the newest version. An empty file gets all tables; another program's, or a
// newer version's, is refused with one line. `backup` receives a copy before an existing file is
// changed.
Status migrate(Database& db, std::span<const Migration> migrations, const std::string& backup);

// The tables of a migrated file are, word by word, those that the migrations make.
Status check_schema(Database& db);

}  // namespace stoker::daemon
