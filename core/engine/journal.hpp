// Journal port: the memory of the engine. append() is one transaction: event, decision, intents,
// the changed parts of the state and the cursors of the inputs that the event came from. Nothing is
// performed before append() has returned. Rows carry a hash chain.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/decision.hpp"
#include "core/event.hpp"

namespace stoker::core {

// How far an input file was read when the event was made; stored in the event's transaction.
struct Cursor {
  std::string path;
  std::uint64_t inode = 0;
  std::uint64_t head_hash = 0;  // XXH3 of the first min(offset, 1024) bytes
  std::uint64_t offset = 0;
  std::uint64_t line = 0;
  std::string parser_state;  // JSON of the reader (a digest in the making)
  STOKER_FIELDS(Cursor, path, inode, head_hash, offset, line, parser_state)
};

struct JournalRow {
  Sequence seq;
  Event event;
  Decision decision;
  std::vector<Intent> intents;
};

struct StateRow {
  Sequence seq;    // of the last row that it contains
  int schema = 0;  // kStateSchema of the writer
  std::string build;
  // Canonical JSON of SiteState without its runs; empty where the journal did not want it. Before
  // runs had parts of their own they stood in it.
  std::string bytes;
  // Canonical JSON of each RunState. load_state(): of all; append(): of those that have changed,
  // empty for one that has left the list.
  std::map<RunName, std::string> runs = {};
};
// What a journal that held `held` holds after the append of `next`.
void lay_over(StateRow& held, const StateRow& next);

class Journal {
 public:
  virtual ~Journal() = default;
  // Whether the state shall be written with the rows that end at `seq`. A journal that wants it
  // less often has its later rows stepped again at the next start.
  [[nodiscard]] virtual bool wants_state(Sequence /*seq*/) const { return true; }
  virtual Status append(const std::vector<JournalRow>& rows, const StateRow& state,
                        const std::vector<Cursor>& cursors) = 0;
  virtual Result<std::optional<StateRow>> load_state() = 0;
  virtual Result<std::vector<JournalRow>> rows_after(Sequence seq, std::size_t limit) = 0;
  // Intents whose result has not come back.
  virtual Result<std::vector<Intent>> open_intents() = 0;
  virtual Status close_intent(const EffectKey& key) = 0;  // within the append of its result event:
                                                          // implementations may batch
  virtual Result<std::vector<Cursor>> cursors() = 0;
  // Whether an append can fail. The engine keeps no copy to go back to for one that cannot.
  [[nodiscard]] virtual bool may_refuse() const { return true; }
};

}  // namespace stoker::core
