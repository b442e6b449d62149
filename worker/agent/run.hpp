// `stoker-agent run`: from the command line to the exit code. The calling process becomes the
// keeper; the agent is its child.
#pragma once

#include "worker/agent/run_context.hpp"

namespace stoker::agent {

inline constexpr int kExitUsage = 2;    // flags, environment, orders
inline constexpr int kExitClaimed = 3;  // another job start holds the claim: nothing was started
inline constexpr int kExitRefused =
    21;  // the orders' checkpoint, or each of the ancestry, is gone or damaged; as the ranks say it

int run_agent(const RunOptions& options);

}  // namespace stoker::agent
