// Drains: with permission (recover.exclude.drain) SLURM is asked to drain a broken node,
// once for each exclusion, and only where the kernel or the driver themselves accused it. Notes
// that are not ours are never touched; a refusal is reported once, with the command for an
// administrator.
#pragma once

#include "core/turn.hpp"

namespace stoker::core {

// After strong evidence of hardware against an excluded node. False: nothing is done, for lack of
// permission or because the scheduler reports the node unusable already.
bool drain_broken(Turn& turn, const NodeName& node, const Evidence& evidence);
// A person included it again: our note, if there is one, is taken away.
void lift_drain(Turn& turn, const NodeName& node);

void on_drain_done(Turn& turn, const DrainNode& drain, const std::string& what);
// SLURM did not permit it; it is not tried again.
void on_drain_refused(Turn& turn, const DrainNode& drain, const EffectFailed& failed);
// What was to be done is no longer wanted.
bool is_drain_stale(const SiteState& site, const DrainNode& drain, Instant now);

}  // namespace stoker::core
