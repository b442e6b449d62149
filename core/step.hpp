// step(): the decider. A pure function of state and event: it returns the next state and the
// decision, what to do and why, and cannot fail. An impossible event is rejected with a reason. Its
// only caller is the engine.
#pragma once

#include <optional>

#include "core/decision.hpp"
#include "core/state.hpp"

namespace stoker::core {

// Key of the nth action of a decision: "<run>/<seq>/<ordinal>", "site" for no run.
EffectKey effect_key(const RunName& run, Sequence seq, std::size_t ordinal);

// The run that an action is for: a site event (a daemon that started) may write a run's control.
const RunName& run_of(const Action& action, const RunName& event_run);

struct Stepped {
  SiteState state;
  Decision decision;
};
// Steps the event as row `before.seq + 1`. Move the state in: a site of 300 runs is megabytes.
Stepped step(SiteState before, const Event& event);

// Whether stepping it changes no other run than its own. What belongs to no run may change in any
// case.
bool keeps_to_its_run(const Event& event);

// When the decider wants a Tick; of one run, and of the site (its retries) with the runs' earliest.
std::optional<Instant> wake_at(const SiteState& state, const RunState& run);
std::optional<Instant> wake_at(const SiteState& state);

}  // namespace stoker::core
