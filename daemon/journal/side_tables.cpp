// Side tables: their columns once, for verification and for recovery.
#include "daemon/journal/side_tables.hpp"

#include <fmt/format.h>
#include <set>

#include "core/engine/journal.hpp"
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

core::Cursor read_cursor(const Statement& row) {
  core::Cursor cursor;
  cursor.path = row.text(0);
  cursor.inode = static_cast<std::uint64_t>(row.integer(1));
  cursor.head_hash = static_cast<std::uint64_t>(row.integer(2));
  cursor.offset = static_cast<std::uint64_t>(row.integer(3));
  cursor.line = static_cast<std::uint64_t>(row.integer(4));
  cursor.parser_state = row.text(5);
  return cursor;
}

constexpr int kCursorHash = 6, kCursorSeq = 7;

bool is_good_cursor(const Statement& row) {
  return cursor_hash(read_cursor(row), row.integer(kCursorSeq)) == row.text(kCursorHash);
}

// An intent of a row that is lost is not known; its key comes again with the row's number.
bool intent_fits(const Statement& row, std::int64_t newest, bool) {
  return row.integer(1) <= newest;
}

bool cursor_fits(const Statement& row, std::int64_t newest, bool holds_state) {
  const std::int64_t seq = row.integer(kCursorSeq);
  return seq == 0 ? holds_state : seq <= newest;
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
       is_good_intent,
       false,
       "ON CONFLICT DO NOTHING",
       nullptr,
       intent_fits},
      {"cursors",
       {{"path"},
        {"inode", kNumber},
        {"head_hash", kNumber},
        {"position", kNumber},
        {"line", kNumber},
        {"parser_state"},
        {"hash"},
        {"seq", kNumber}},
       is_good_cursor,
       true,
       "ON CONFLICT (path) DO UPDATE SET inode = excluded.inode, head_hash = excluded.head_hash, "
       "position = excluded.position, line = excluded.line, parser_state = excluded.parser_state, "
       "hash = excluded.hash, seq = excluded.seq WHERE excluded.seq > cursors.seq",
       "path, inode, head_hash, position, line, parser_state, hash, 0",
       cursor_fits},
      {"quarantine", {{"digest"}, {"wall", kNumber}, {"run"}, {"kind"}, {"body"}}, nullptr}};
  return tables;
}

std::string names_of(const SideTable& table) {
  std::string names;
  for (const SideColumn& column : table.columns)
    names += (names.empty() ? "" : ", ") + std::string(column.name);
  return names;
}

std::string cursor_hash(const core::Cursor& c, std::int64_t seq) {
  const auto number = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
  auto text = fmt::format("{} {} {} {} {} {}", c.path.size(), number(c.inode), number(c.head_hash),
                          number(c.offset), number(c.line), c.parser_state.size());
  text += c.path + c.parser_state;
  return digest_of(seq == 0 ? text : fmt::format("{} {}", text, seq));
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
