// Limbo takes two witnesses: the silence (of the agents, of a script's logs), and SLURM's own view
// of the job: that it has no step of it any more, or that the node of its batch script is none of
// its nodes, and of a script that its nodes have no process of it. A probe without an answer proves
// nothing; only a silence as long as a hang ends a job without one.
#pragma once

#include "core/turn.hpp"

namespace stoker::core::probe {

inline constexpr Duration kAnswerWithin = 3min;  // a probe's own deadlines are shorter

// A run on SLURM; elsewhere the scheduler's word is the processes themselves.
bool is_wanted(const RunPolicy& policy);
// Asks about the running job; of a script from inside too. Counts in the present silence.
void ask(Turn& turn);

// The lead agent is silent and the patience is over: asks, or acts when the silence is a hang's.
void on_silence_due(Turn& turn);
// A script's logs were silent for too long and no answer has come: asks again, or acts.
void on_script_silence_due(Turn& turn);
// The agents said goodbye and the job is still running: the next look at it.
Instant limbo_at(const LiveGeneration& live);
void on_limbo_due(Turn& turn);

}  // namespace stoker::core::probe
