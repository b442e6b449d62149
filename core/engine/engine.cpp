// Engine: inputs become events, events decisions, decisions rows; one transaction a turn, then the
// effects. This is the only file that calls step().
#include "core/engine/engine.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "core/engine/touched.hpp"
#include "core/state.hpp"
#include "core/step.hpp"

namespace stoker::core {
namespace {

constexpr std::size_t kAuditRows = 256;

std::vector<Intent> intents_of(const JournalRow& row) {
  std::vector<Intent> intents;
  for (std::size_t i = 0; i < row.decision.actions.size(); ++i)
    intents.push_back({effect_key(row.event.run, row.seq, i),
                       run_of(row.decision.actions[i], row.event.run), row.decision.actions[i]});
  return intents;
}

std::optional<EffectKey> result_key(const EventBody& body) {
  if (const auto* done = std::get_if<EffectDone>(&body)) return done->key;
  if (const auto* failed = std::get_if<EffectFailed>(&body)) return failed->key;
  if (const auto* unknown = std::get_if<EffectUnknown>(&body)) return unknown->key;
  return std::nullopt;
}

Result<SiteState> state_of(const StateRow& row) {
  STOKER_TRY(state, from_json_text<SiteState>(row.bytes, "state row"));
  for (const auto& [name, bytes] : row.runs) {
    STOKER_TRY(run, from_json_text<RunState>(bytes, "state row of " + name.text));
    state.runs.insert_or_assign(name, std::move(run));
  }
  return state;
}

Unexpected missing_row(Sequence row, Sequence next) {
  return fail(fmt::format("row {} is missing, {} follows", row.value, next.value), "journal",
              "restore a backup, or start with a new state directory");
}

}  // namespace

struct Engine::Impl {
  Journal& journal;
  EffectRunner& effects;
  Clock& clock;
  std::string build;
  SiteState state = {};
  std::set<RunName> unwritten = {};  // runs that the journal's state does not hold as they are
  std::vector<JournalRow> rows = {};

  Decision advance(const Event& event) {
    auto [next, decision] = step(std::move(state), event);
    state = std::move(next);
    return std::move(decision);
  }

  // A Tick for the site becomes one for each run that is due; with no run due: nothing.
  std::vector<Input> expand(std::vector<Input> inputs, Instant now) const {
    std::vector<Input> result;
    for (Input& input : inputs) {
      if (!std::holds_alternative<Tick>(input.body) || !input.run.empty()) {
        result.push_back(std::move(input));
        continue;
      }
      for (const auto& [name, run] : state.runs)
        if (const auto at = core::wake_at(state, run); at && *at <= now)
          result.push_back({name, Tick{}, {}});
      const bool site_due =
          std::any_of(state.retries.begin(), state.retries.end(),
                      [&](const Retry& r) { return r.effect.run.empty() && r.at <= now; });
      if (site_due || !input.cursors.empty())
        result.push_back({RunName{}, Tick{}, std::move(input.cursors)});
    }
    return result;
  }

  // The state, of its runs those that the journal does not hold as they are.
  StateRow state_row() {
    StateRow row;
    row.seq = state.seq;
    row.schema = kStateSchema;
    row.build = build;
    if (!journal.wants_state(state.seq)) return row;
    row.bytes = without_runs(state, [](const SiteState& site) { return to_json_text(site); });
    for (const RunName& name : unwritten) {
      const auto run = state.runs.find(name);
      row.runs[name] = run == state.runs.end() ? "" : to_json_text(run->second);
    }
    return row;
  }

  // The rows behind the state that was loaded.
  Status replay() {
    for (;;) {
      STOKER_TRY(later, journal.rows_after(state.seq, kAuditRows));
      if (later.empty()) return ok();
      Touched touched(state, false);
      for (const JournalRow& row : later) {
        touched.reach(row.event);
        advance(row.event);
        if (state.seq != row.seq) return missing_row(state.seq, row.seq);
      }
      unwritten.merge(touched.changed());
    }
  }
};

Engine::Engine(Journal& journal, EffectRunner& effects, Clock& clock, std::string build)
    : impl_(new Impl{journal, effects, clock, std::move(build)}) {}
Engine::~Engine() = default;

Status Engine::start(const DaemonStarted& started) {
  STOKER_TRY(row, impl_->journal.load_state());
  if (row) {
    if (row->schema > kStateSchema)
      return fail(fmt::format("the journal's state has schema {}, this build reads up to {}",
                              row->schema, kStateSchema),
                  "journal", "start a build as new as the one that wrote it");
    STOKER_TRY(state, state_of(*row));
    impl_->state = std::move(state);
    for (const auto& [name, run] : impl_->state.runs)
      if (!row->runs.contains(name)) impl_->unwritten.insert(name);
  }
  STOKER_TRY_STATUS(impl_->replay());
  STOKER_TRY(open, impl_->journal.open_intents());
  STOKER_TRY_STATUS(feed({{RunName{}, started, {}}}));
  if (impl_->rows.front().decision.rejected)
    return fail(impl_->rows.front().decision.reason, "journal",
                "stop this daemon; the newer one is in charge");
  std::vector<Input> inputs;
  for (const Intent& intent : open)
    inputs.push_back({intent.run,
                      EffectUnknown{intent.key, kind_of(intent.action),
                                    "the daemon ended before the result came back"},
                      {}});
  std::vector<JournalRow> first = std::move(impl_->rows);
  STOKER_TRY_STATUS(feed(std::move(inputs)));
  impl_->rows.insert(impl_->rows.begin(), first.begin(), first.end());
  return ok();
}

Status Engine::feed(std::vector<Input> inputs) {
  const Instant now = std::max(impl_->clock.now(), impl_->state.now);
  const WallTime wall = impl_->clock.wall();
  inputs = impl_->expand(std::move(inputs), now);
  impl_->rows.clear();
  if (inputs.empty()) return ok();
  const bool may_refuse = impl_->journal.may_refuse();
  Touched touched(impl_->state, may_refuse);
  std::vector<JournalRow> rows;
  std::vector<Cursor> cursors;
  for (Input& input : inputs) {
    JournalRow row;
    row.event = Event{now, wall, input.run, std::move(input.body)};
    touched.reach(row.event);
    row.decision = impl_->advance(row.event);
    row.seq = impl_->state.seq;
    row.intents = intents_of(row);
    rows.push_back(std::move(row));
    cursors.insert(cursors.end(), input.cursors.begin(), input.cursors.end());
  }
  impl_->unwritten.merge(touched.changed());
  const StateRow state = impl_->state_row();
  const Status appended = impl_->journal.append(rows, state, cursors);
  if (!appended) {
    STOKER_CHECK(may_refuse, "a journal that cannot refuse has refused");
    touched.take_back();
    return fail(appended.error());
  }
  if (!state.bytes.empty()) impl_->unwritten.clear();
  for (const JournalRow& row : rows)
    if (const auto key = result_key(row.event.body))
      STOKER_TRY_STATUS(impl_->journal.close_intent(*key));
  impl_->rows = std::move(rows);
  // A runner may answer at once and feed again: it works on a copy.
  std::vector<Intent> intents;
  for (const JournalRow& row : impl_->rows)
    intents.insert(intents.end(), row.intents.begin(), row.intents.end());
  for (const Intent& intent : intents) impl_->effects.start(intent);
  return ok();
}

Decision Engine::preview(const Input& input) const {
  const SiteState& state = impl_->state;
  const Event event{std::max(impl_->clock.now(), state.now), impl_->clock.wall(), input.run,
                    input.body};
  Touched touched(impl_->state, true);
  touched.reach(event);
  Decision decision = impl_->advance(event);
  touched.take_back();
  return decision;
}

std::optional<Instant> Engine::wake_at() const {
  return core::wake_at(impl_->state);
}
const SiteState& Engine::state() const {
  return impl_->state;
}
Sequence Engine::last_sequence() const {
  return impl_->state.seq;
}
const std::vector<JournalRow>& Engine::last_rows() const {
  return impl_->rows;
}

Status audit_journal(Journal& journal) {
  SiteState state;
  for (;;) {
    STOKER_TRY(rows, journal.rows_after(state.seq, kAuditRows));
    if (rows.empty()) break;
    for (const JournalRow& row : rows) {
      auto [next, decision] = step(std::move(state), row.event);
      state = std::move(next);
      if (state.seq != row.seq) return missing_row(state.seq, row.seq);
      if (to_json_text(decision) != to_json_text(row.decision))
        return fail(fmt::format("row {} ({}) decides differently when it is replayed",
                                row.seq.value, kind_of(row.event.body)),
                    "journal", "the journal was written by another build, or is damaged");
    }
  }
  STOKER_TRY(row, journal.load_state());
  if (!row) return state.seq == Sequence{} ? ok() : Status(fail("no state row", "journal"));
  if (row->seq != state.seq)
    return fail(fmt::format("the state row is of row {}, the journal ends at {}", row->seq.value,
                            state.seq.value),
                "journal");
  STOKER_TRY(held, state_of(*row));
  for (const auto& [name, run] : state.runs)
    if (const auto other = held.runs.find(name);
        other == held.runs.end() || to_json_text(other->second) != to_json_text(run))
      return fail(fmt::format("the replayed state of {} differs from the state row", name.text),
                  "journal");
  if (to_json_text(held) != to_json_text(state))
    return fail("the replayed state differs from the state row", "journal");
  return ok();
}

}  // namespace stoker::core
