// A job that SLURM has stopped and may let go on later: `scontrol suspend`, or gang scheduling. All
// its processes stand still, agents too. Their silence says nothing then, and no deadline passes;
// what they do by themselves when they go on again is in lead/standstill.cpp.
#pragma once

#include "core/turn.hpp"

namespace stoker::core::supply {

// The task that runs, as the scheduler's newest answer shows it.
bool is_suspended(const RunState& run);
// To be called with each answer about the task that runs; `before`: its state until now.
void heed_suspension(Turn& turn, const Submission& s, const JobSeen& seen, JobState before);

}  // namespace stoker::core::supply
