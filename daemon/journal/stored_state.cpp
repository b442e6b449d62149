// The sum is the exclusive or: what was added to it is taken out in the same way.
#include "daemon/journal/stored_state.hpp"

#include <fmt/format.h>

#include "daemon/journal/hash_chain.hpp"

namespace stoker::daemon {
namespace {

constexpr const char* kHead =
    "SELECT seq, schema, build, bytes, hash, runs FROM state WHERE id = 1";
constexpr const char* kHeadBefore =  // of the versions that had no rows of runs
    "SELECT seq, schema, build, bytes, hash, zeroblob(16) FROM state WHERE id = 1";

void add(std::string& sum, const std::string& hash) {
  for (std::size_t i = 0; i < sum.size() && i < hash.size(); ++i)
    sum[i] = static_cast<char>(sum[i] ^ hash[i]);
}

Unexpected damaged(const Database& db, const std::string& what) {
  return fail(what, db.path());
}

// The rows of the runs; answers the sum of their hashes.
Result<std::string> read_runs(Database& db, core::StateRow& state) {
  STOKER_TRY(row, db.prepare("SELECT run, seq, bytes, hash FROM run_states"));
  std::string sum = no_runs();
  for (;;) {
    STOKER_TRY(more, row.step());
    if (!more) return sum;
    const std::string run = row.text(0), bytes = row.text(2), hash = row.text(3);
    if (run_state_hash(run, row.integer(1), bytes) != hash)
      return damaged(db, fmt::format("the state row of \"{}\" is damaged", run));
    add(sum, hash);
    state.runs[RunName(run)] = bytes;
  }
}

}  // namespace

Result<std::optional<core::StateRow>> read_state(Database& db) {
  core::StateRow state;
  auto head = db.prepare(kHead);
  const bool before = !head;
  if (before) head = db.prepare(kHeadBefore);
  if (!head) return fail(head.error());
  STOKER_TRY(there, head->step());
  std::string sum = no_runs();
  if (!before) {
    STOKER_TRY(runs, read_runs(db, state));
    sum = std::move(runs);
  }
  if (!there && state.runs.empty()) return std::optional<core::StateRow>{};
  if (!there) return damaged(db, "the state row is missing");
  state.seq = Sequence(static_cast<std::uint64_t>(head->integer(0)));
  state.schema = static_cast<int>(head->integer(1));
  state.build = head->text(2);
  state.bytes = head->text(3);
  const std::string runs = head->text(5);
  if (state_hash(head->integer(0), head->integer(1), state.build, state.bytes, runs) !=
      head->text(4))
    return damaged(db, "the state row is damaged");
  if (runs != sum) return damaged(db, "the state rows of its runs are not those of one turn");
  return std::optional<core::StateRow>(std::move(state));
}

StateTable::StateTable(Statement sum, Statement put, Statement known, Statement put_run,
                       Statement drop_run)
    : sum_(std::move(sum)),
      put_(std::move(put)),
      known_(std::move(known)),
      put_run_(std::move(put_run)),
      drop_run_(std::move(drop_run)) {}

Result<StateTable> StateTable::prepare(Database& db) {
  STOKER_TRY(sum, db.prepare("SELECT runs FROM state WHERE id = 1"));
  STOKER_TRY(put,
             db.prepare("INSERT INTO state (id, seq, schema, build, bytes, hash, runs) "
                        "VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO UPDATE SET "
                        "seq = ?1, schema = ?2, build = ?3, bytes = ?4, hash = ?5, runs = ?6"));
  STOKER_TRY(known, db.prepare("SELECT hash FROM run_states WHERE run = ?1"));
  STOKER_TRY(put_run, db.prepare("INSERT INTO run_states (run, seq, bytes, hash) "
                                 "VALUES (?1, ?2, ?3, ?4) ON CONFLICT (run) DO UPDATE SET "
                                 "seq = ?2, bytes = ?3, hash = ?4"));
  STOKER_TRY(drop_run, db.prepare("DELETE FROM run_states WHERE run = ?1"));
  return StateTable(std::move(sum), std::move(put), std::move(known), std::move(put_run),
                    std::move(drop_run));
}

Result<std::string> StateTable::hash_of(const std::string& run) {
  known_.bind(1, run);
  STOKER_TRY(there, known_.step());
  std::string hash = there ? known_.text(0) : "";
  known_.reset();
  return hash;
}

Status StateTable::write(const core::StateRow& state) {
  const auto seq = static_cast<std::int64_t>(state.seq.value);
  STOKER_TRY(there, sum_.step());
  std::string sum = there ? sum_.text(0) : no_runs();
  sum_.reset();
  for (const auto& [run, bytes] : state.runs) {
    STOKER_TRY(before, hash_of(run.text));
    add(sum, before);
    if (bytes.empty()) {
      STOKER_TRY_STATUS(drop_run_.bind(1, run.text).run());
      continue;
    }
    const std::string hash = run_state_hash(run.text, seq, bytes);
    add(sum, hash);
    put_run_.bind(1, run.text).bind(2, seq).bind_blob(3, bytes);
    STOKER_TRY_STATUS(put_run_.bind_blob(4, hash).run());
  }
  const std::string hash = state_hash(seq, state.schema, state.build, state.bytes, sum);
  put_.bind(1, seq).bind(2, state.schema).bind(3, state.build).bind_blob(4, state.bytes);
  return put_.bind_blob(5, hash).bind_blob(6, sum).run();
}

}  // namespace stoker::daemon
