// Silences: alerts that match are shown and not sent for a while. Operators make, extend, list and
// end them; each has an id, an author and a reason.
#pragma once

#include <string>
#include <vector>

#include "core/turn.hpp"
#include "wire/held.hpp"
#include "wire/status.hpp"

namespace stoker::core {

// Arguments: `for` (a duration; default 2h) and matchers: run, kind, severity, node; or `end` with
// the id of a silence; or `extend` with an id and `for`, counted from now. An unknown matcher,
// severity or id is rejected with what is known.
void on_silence(Turn& turn, const OperatorAsked& asked);

// Whether a silence in force matches the alert.
bool is_silenced(const SiteState& site, const AlertState& alert, Instant now);

// The open alerts that a silence in force keeps from every sink.
std::vector<wire::HeldAlert> silenced_alerts(const SiteState& site, Instant now);

// The silences in force, the next to end first.
std::vector<wire::StatusSilence> silences_of(const SiteState& site);

}  // namespace stoker::core
