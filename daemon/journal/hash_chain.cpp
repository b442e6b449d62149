// Hash chain: the walk names every row that does not fit, the first of them first.
#include "daemon/journal/hash_chain.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include "daemon/journal/side_tables.hpp"
#include "daemon/journal/stored_state.hpp"

namespace stoker::daemon {
namespace {

constexpr std::size_t kMostNamed = 1000;

void put(std::string& out, std::int64_t number) {
  for (int shift = 0; shift < 64; shift += 8)
    out.push_back(static_cast<char>((static_cast<std::uint64_t>(number) >> shift) & 0xff));
}
void put(std::string& out, const std::string& text) {
  put(out, static_cast<std::int64_t>(text.size()));
  out += text;
}

}  // namespace

std::string digest_of(const std::string& bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  return std::string(reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest);
}

std::string first_prev_hash() {
  return std::string(16, '\0');
}

std::string row_hash(const StoredRow& row) {
  std::string bytes = row.prev_hash;
  bytes.reserve(bytes.size() + row.event.size() + row.decision.size() + row.intents.size() + 128);
  put(bytes, row.seq);
  put(bytes, row.at);
  put(bytes, row.wall);
  for (const auto* text : {&row.run, &row.kind, &row.event, &row.decision, &row.intents})
    put(bytes, *text);
  return digest_of(bytes);
}

std::string state_hash(std::int64_t seq, std::int64_t schema, const std::string& build,
                       const std::string& bytes, const std::string& runs) {
  std::string all;
  all.reserve(bytes.size() + build.size() + 64);
  put(all, seq);
  put(all, schema);
  put(all, build);
  put(all, bytes);
  if (runs != no_runs()) put(all, runs);  // which versions 1 and 2 did not know
  return digest_of(all);
}

std::string run_state_hash(const std::string& run, std::int64_t seq, const std::string& bytes) {
  std::string all;
  all.reserve(bytes.size() + run.size() + 32);
  put(all, run);
  put(all, seq);
  put(all, bytes);
  return digest_of(all);
}

std::string no_runs() {
  return std::string(16, '\0');
}

StoredRow read_stored_row(const Statement& s) {
  StoredRow row;
  row.seq = s.integer(0);
  row.at = s.integer(1);
  row.wall = s.integer(2);
  row.run = s.text(3);
  row.kind = s.text(4);
  row.event = s.text(5);
  row.decision = s.text(6);
  row.intents = s.text(7);
  row.prev_hash = s.text(8);
  row.hash = s.text(9);
  row.lost = s.integer(10) != 0;
  return row;
}

Status write_stored_row(Statement& insert, const StoredRow& row) {
  insert.bind(1, row.seq).bind(2, row.at).bind(3, row.wall).bind(4, row.run).bind(5, row.kind);
  insert.bind(6, row.event).bind(7, row.decision).bind(8, row.intents);
  insert.bind_blob(9, row.prev_hash).bind_blob(10, row.hash).bind(11, row.lost ? 1 : 0);
  return insert.run();
}

std::string Damage::message() const {
  std::string text;
  const auto add = [&text](const std::string& part) {
    if (!text.empty()) text += ", ";
    text += part;
  };
  if (!structure.empty()) add("its structure is damaged (" + structure + ")");
  if (first)
    add(rows.size() == 1 ? fmt::format("row {} is damaged", *first)
                         : fmt::format("row {} is damaged, the first of {}", *first, rows.size()));
  if (!state.empty()) add(state);
  if (!beside.empty()) add(beside);
  return text;
}

Result<Damage> verify_chain(Database& db) {
  Damage damage;
  const auto name = [&damage](std::int64_t seq) {
    if (!damage.first) damage.first = seq;
    if (damage.rows.size() < kMostNamed) damage.rows.push_back(seq);
  };
  if (auto check = db.value("PRAGMA integrity_check(1)"); !check)
    damage.structure = check.error().what;
  else if (*check && **check != "ok")
    damage.structure = **check;

  STOKER_TRY(all, db.prepare(fmt::format("SELECT {} FROM rows ORDER BY seq", kRowColumns)));
  std::string expected_prev = first_prev_hash();
  std::int64_t expected_seq = 1;
  bool any_lost = false;
  for (;;) {
    auto more = all.step();
    if (!more) {
      damage.structure = more.error().what;
      name(expected_seq);
      break;
    }
    if (!*more) break;
    const StoredRow row = read_stored_row(all);
    while (expected_seq < row.seq && damage.rows.size() < kMostNamed) {
      name(expected_seq++);
      expected_prev.clear();
    }
    expected_seq = row.seq + 1;
    any_lost = any_lost || row.lost;
    const bool linked = row.lost || expected_prev.empty() || row.prev_hash == expected_prev;
    const bool content = row.lost || row_hash(row) == row.hash;
    if (!content || !linked) name(row.seq);
    // Behind a damaged row the chain continues from the next row's copy of it.
    expected_prev = content ? row.hash : std::string();
  }
  const auto state = read_state(db);
  if (!state)
    damage.state = state.error().what;
  else if (!*state && any_lost)  // without one it is replayed from row 1, which a hole would stop
    damage.state = "the state row is missing";
  if (!damage.any()) {  // else all of it is rebuilt
    STOKER_TRY(beside, verify_side_tables(db));
    damage.beside = std::move(beside);
  }
  return damage;
}

}  // namespace stoker::daemon
