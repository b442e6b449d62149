// The tables beside the rows: intents, cursors, quarantine. The hash chain does not cover them: an
// open intent is checked against the row that decided on it, a cursor carries a hash of its own.
#pragma once

#include <string>
#include <vector>

#include "core/engine/journal.hpp"
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
  // How recovery takes it over (recovery.cpp).
  bool from_backups = false;
  const char* on_conflict = "ON CONFLICT DO NOTHING";
  const char* names_before = nullptr;  // of the version before, the new ones by their default
  // Does it belong to rows that end at `newest`? `holds_state`: the state comes from there too.
  bool (*fits)(const Statement& row, std::int64_t newest, bool holds_state) = nullptr;
};
const std::vector<SideTable>& side_tables();
std::string names_of(const SideTable& table);  // "key, seq, run, ..."

// XXH3-128 over all other columns of a cursor. `seq`: of the row that it came with; 0 = written
// before cursors knew their row.
std::string cursor_hash(const core::Cursor& cursor, std::int64_t seq);

// What is wrong in them, in words; "" when nothing is. An Error only when they cannot be read.
Result<std::string> verify_side_tables(Database& db);

}  // namespace stoker::daemon
