// Commands to the running generation and to the scheduler: control.json and cancels. Everything
// here only fills the decision; the engine performs it.
#pragma once

#include <string>

#include "core/turn.hpp"

namespace stoker::core {

// Writes control.json for the live generation as it stands in the state. Without one: nothing.
void write_control(Turn& turn, const std::string& reason);
// The same where no generation is live: its part about the run (halt, lifts).
void write_run_control(Turn& turn, const std::string& reason);

// What the live generation is to do, for the next write_control. `of`: the attempt that is to
// leave; a newer one goes on. Without it: whichever runs.
void set_level(RunState& run, wire::Level level, Attempt of = {});

// Orders the live generation to exit and enters Stopping, which escalates (training/stopping.cpp).
void leave(Turn& turn, training::Goal goal, wire::Level level, const std::string& sentence);

// How long a level may take before the next, harder step: save and leave 2 min or 3x the longest
// save, leave now 60 s (TERM, 20 s, KILL, and the job's own end).
Duration patience(const RunState& run, wire::Level level);

// Cancels the running task of the run (all of them, if there were several).
void cancel_task(Turn& turn);
// Cancels it again, unless the scheduler is blind (unknown is not dead) or the last cancel is still
// tried.
void cancel_again(Turn& turn, const std::string& sentence);
// A cancel of it has failed and is tried again by itself (retry_effects).
bool is_cancel_retried(const Turn& turn);
// Cancels what has not started; running tasks stay.
void cancel_waiting(Turn& turn);
void cancel_all(Turn& turn);

// The submission that runs a task (or whose task is ending); null = none.
supply::Submission* running_submission(RunState& run);
const supply::Submission* running_submission(const RunState& run);
std::uint32_t running_task(const supply::Submission& submission);
// How many of its tasks may start, wanted or not. Agents of a task that is not wanted leave before
// any rank starts, so only wanted ones count; a script has nothing that would object.
std::uint32_t may_start(const RunState& run, const supply::Submission& submission);

}  // namespace stoker::core
