// SqliteJournal: the engine's memory in one SQLite file. append() is one transaction: rows with
// their hash chain, intents opened and closed, the state's rows, cursors. Owned by one thread,
// which holds the only connection that writes. On a network file system (`exclusive`) no other
// process may open the file; elsewhere it is in WAL mode and read-only readers are welcome.
#pragma once

#include <functional>
#include <memory>

#include "core/engine/journal.hpp"
#include "daemon/journal/hash_chain.hpp"
#include "daemon/journal/stored_state.hpp"

namespace stoker::daemon {

struct JournalOptions {
  std::string path;
  bool exclusive = false;
  // Asked before every append; an error means that this daemon may not act any more.
  std::function<Status()> fence;
};

class SqliteJournal final : public core::Journal {
 public:
  // Opens or creates, migrates, and walks the chain: damage is an Error that names it
  // (recovery.hpp restores it).
  static Result<std::unique_ptr<SqliteJournal>> open(const JournalOptions& options);

  Status append(const std::vector<core::JournalRow>& rows, const core::StateRow& state,
                const std::vector<core::Cursor>& cursors) override;
  Result<std::optional<core::StateRow>> load_state() override;
  // A row whose content damage has taken is an Error that names it.
  Result<std::vector<core::JournalRow>> rows_after(Sequence seq, std::size_t limit) override;
  // Without those rows, of runs with these names ("": of the site): for publishing.
  Result<std::vector<core::JournalRow>> intact_rows_of(const std::vector<RunName>& names,
                                                       Sequence after, std::size_t limit);
  // Of them those of what people asked for.
  Result<std::vector<core::JournalRow>> asked_rows_after(Sequence seq, std::size_t limit);
  Result<std::vector<core::Intent>> open_intents() override;
  Status close_intent(const EffectKey& key) override;  // takes effect with the next append
  Result<std::vector<core::Cursor>> cursors() override;

  [[nodiscard]] Sequence last_sequence() const { return last_; }
  // Of the newest row: where engine time and wall time stood.
  Result<std::optional<std::pair<Instant, WallTime>>> last_times();
  // Kind of the newest row: "daemon_stopping" after a clean end.
  Result<std::string> last_kind();

  Status quarantine(const std::string& digest, WallTime wall, const RunName& run,
                    const std::string& kind, const std::string& body);

  // A consistent copy: VACUUM INTO aside, synced, renamed.
  Status copy_to(const std::string& path);
  [[nodiscard]] const std::string& path() const { return db_.path(); }

 private:
  explicit SqliteJournal(Database db) : db_(std::move(db)) {}
  Status prepare(const JournalOptions& options);
  Status insert_row(const core::JournalRow& row, std::string& prev_hash);
  Status close_by_event(const core::JournalRow& row);
  Result<std::vector<core::JournalRow>> select_rows(const char* where, Sequence seq,
                                                    std::size_t limit,
                                                    const std::string& names = {});
  Status put_cursors(const std::vector<core::Cursor>& cursors, Sequence last);

  Database db_;
  std::function<Status()> fence_;
  std::optional<Statement> insert_row_, insert_intent_, close_intent_, close_look_up_, put_cursor_;
  std::optional<StateTable> states_;
  std::vector<EffectKey> to_close_;
  std::string last_hash_;
  Sequence last_;
};

// The result event closes its intent: by key, or a look-up by its token ("" = neither).
struct IntentClosed {
  std::string key, token, state;  // state: done failed unknown
};
std::optional<IntentClosed> closed_by(const core::EventBody& body);

StoredRow to_stored(const core::JournalRow& row);  // without hashes
Result<core::JournalRow> from_stored(const StoredRow& row, const std::string& object);

}  // namespace stoker::daemon
