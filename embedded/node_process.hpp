// The node process: what slurmstepd is to SLURM. One for each node of a running task; it starts the
// agent's command, forwards signals, keeps the time limit (signal, TERM, KILL) even while no
// scheduler lives, and leaves nothing behind. It outlives the scheduler process.
#pragma once

#include <string>

namespace stoker::embedded {

// Entry of the hidden subcommand `stokerd local-node --path FOLDER` (a NodeFolder); call it first
// thing in main, before any thread exists. Signals to it:
//   TERM  ends the run: TERM to the agent's process group, kill_wait later KILL to everything
//   USR1, USR2, HUP, INT, CONT  are forwarded to the agent
// Ends with 0 when exit.json is written; 1 with a line on stderr otherwise. If it is killed, the
// kernel kills the agent with it and the scheduler process ends the rest by their mark.
int run_node_process(const std::string& path);

}  // namespace stoker::embedded
