// Side tables: their columns once, for verification and for recovery.
#include "daemon/journal/side_tables.hpp"

#include <fmt/format.h>
#include <set>

#include "core/journal.hpp"
#include "daemon/journal/hash_chain.hpp"
#include "daemon/journal/sqlite_journal.hpp"

namespace stoker::daemon {
namespace {

constexpr bool kNumber = true;

bool is_good_intent(const Statement& row) {
  static const std::set<std::string> kStates{"open", "done", "failed", "unknown"};
  return kStates.contains(row.text(4)) &&
         from_json_text<core::Action>(row.text(3), "intent").has_value();
}

bool is_good_cursor(const Statement& row) {
  return cursor_hash(row.text(0), row.integer(1), row.integer(2), row.integer(3), row.integer(4),
                     row.text(5)) == row.text(6);
}

// Is this open intent what its row decided on?
Result<bool> is_decided(Database& db, const Statement& intent) {
  STOKER_TRY(row, db.prepare(fmt::format("SELECT {} FROM rows WHERE seq = ?1", kRowColumns)));
  row.bind(1, intent.integer(1));
  STOKER_TRY(there, row.step());
  if (!there) return false;
  const StoredRow stored = read_stored_row(row);
  if (stored.lost) return true;  // nothing is left that it could be compared with
  const auto decided = from_stored(stored, db.path());
  if (!decided) return false;
  for (const core::Intent& one : decided->intents)
    if (one.key.text == intent.text(0))
      return one.run.text == intent.text(2) && to_json_text(one.action) == intent.text(3);
  return false;
}

}  // namespace

const std::vector<SideTable>& side_tables() {
  static const std::vector<SideTable> tables{
      {"intents",
       {{"key"}, {"seq", kNumber}, {"run"}, {"action"}, {"state"}, {"result_seq", kNumber}},
       is_good_intent},
      {"cursors",
       {{"path"},
        {"inode", kNumber},
        {"head_hash", kNumber},
        {"position", kNumber},
        {"line", kNumber},
        {"parser_state"},
        {"hash"}},
       is_good_cursor},
      {"quarantine", {{"digest"}, {"wall", kNumber}, {"run"}, {"kind"}, {"body"}}, nullptr}};
  return tables;
}

std::string names_of(const SideTable& table) {
  std::string names;
  for (const SideColumn& column : table.columns)
    names += (names.empty() ? "" : ", ") + std::string(column.name);
  return names;
}

std::string cursor_hash(const std::string& path, std::int64_t inode, std::int64_t head_hash,
                        std::int64_t position, std::int64_t line, const std::string& parser_state) {
  const auto hash = fmt::format("{} {} {} {} {} {}", path.size(), inode, head_hash, position, line,
                                parser_state.size());
  return digest_of(hash + path + parser_state);
}

Result<std::string> verify_side_tables(Database& db) {
  for (const SideTable& table : side_tables()) {
    STOKER_TRY(row, db.prepare(fmt::format("SELECT {} FROM {}", names_of(table), table.name)));
    const bool intents = std::string_view(table.name) == "intents";
    for (;;) {
      const auto more = row.step();
      if (!more) return fmt::format("the table of {} is damaged", table.name);
      if (!*more) break;
      bool good = table.good == nullptr || intents || table.good(row);
      if (intents && row.text(4) == "open") {
        STOKER_TRY(decided, is_decided(db, row));
        good = decided;
      } else if (intents) {
        good = row.text(4) == "done" || row.text(4) == "failed" || row.text(4) == "unknown";
      }
      if (!good) return fmt::format("{} \"{}\" is damaged", table.name, row.text(0));
    }
  }
  return std::string();
}

}  // namespace stoker::daemon
