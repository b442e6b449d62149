// The environment of a rank: what torchrun sets, SLURM-like ids, and the STOKER_ variables of
// wire/environment.hpp, over what the agent was started with. Pure.
#pragma once

#include <map>
#include <string>

#include "wire/orders.hpp"
#include "worker/agent/link/protocol.hpp"
#include "worker/agent/run_context.hpp"

namespace stoker::agent {

using Environment = std::map<std::string, std::string>;

// When to have saved and exited: exit_before_limit before the wall, at most half of what was left
// of the limit when the generation began.
WallTime exit_before(const wire::Orders& orders, WallTime end, WallTime began);

// Without the rank's place and the attempt: what a standby is started with too.
Environment base_environment(const Environment& inherited, const RunContext& context,
                             const wire::Start& start, std::uint32_t ranks_per_node);

// What a rank shares with its agent.
struct RankMemory {
  std::string heartbeat;  // the page's path, "" = none
  std::string slots;      // STOKER_MEMORY, "" = none
};
// What one rank of one attempt has over the base.
Environment rank_environment(const wire::Start& start, const StartRanks& order,
                             std::uint32_t local_rank, const RankMemory& memory);

}  // namespace stoker::agent
