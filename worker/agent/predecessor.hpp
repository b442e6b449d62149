// The generation that trains or trained before ours. A file cannot stop a late writer, so a start
// looks whether its predecessor lives: the lead's last word is a goodbye once every rank is gone;
// without one, what its agents write grows as long as they live. Clocks are our own.
#pragma once

#include <optional>
#include <string>

#include "worker/agent/claim.hpp"

namespace stoker::agent {

// A job of an older submission (tokens are <run>-<order number>-<random hex>) than the one that the
// newest generation came from, and that one lives: it was delayed, its successor owns the run.
// Empty: it may start.
std::optional<std::string> why_delayed(const RunContext& context);

// Waits until the newest generation is over or nothing was heard of it for a few seconds; its last
// save then counts. stderr says what is waited for. Ends early at a signal, or when a kill or stop
// switch lies in the run directory. Not empty: it is still heard after `limit`; nothing may start.
std::optional<std::string> await_predecessor(const RunContext& context, Duration limit);

}  // namespace stoker::agent
