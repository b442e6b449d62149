// `stoker-agent run`: from the command line to the exit code. The calling process becomes the
// keeper; the agent is its child.
#pragma once

#include "worker/agent/run_context.hpp"

namespace stoker::agent {

int run_agent(const RunOptions& options);

}  // namespace stoker::agent
