// The tables beside the rows: intents, cursors, quarantine. The hash chain does not cover them: an
// open intent is checked against the row that decided on it, a cursor carries a hash of its own.
#pragma once

#include <string>
#include <vector>

#include "daemon/journal/database.hpp"

namespace stoker::daemon {

struct SideColumn {
  const char* name;
  bool number = false;
};
struct SideTable {
  const char* name;
  std::vector<SideColumn> columns;
  bool (*good)(const Statement& row);  // of a SELECT of all columns in order; nullptr: any row is
};
const std::vector<SideTable>& side_tables();
std::string names_of(const SideTable& table);  // "key, seq, run, ..."

// XXH3-128 over all other columns of a cursor.
std::string cursor_hash(const std::string& path, std::int64_t inode, std::int64_t head_hash,
                        std::int64_t position, std::int64_t line, const std::string& parser_state);

// What is wrong in them, in words; "" when nothing is. An Error only when they cannot be read.
Result<std::string> verify_side_tables(Database& db);

}  // namespace stoker::daemon
