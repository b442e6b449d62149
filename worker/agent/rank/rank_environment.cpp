// Names and values as torchrun 1.9 and later set them (torch/distributed/elastic/agent/server/
// local_elastic_agent.py), and as srun does.
#include "worker/agent/rank/rank_environment.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "wire/environment.hpp"
#include "wire/lineage.hpp"

namespace stoker::agent {
namespace env = wire::env;
namespace {

// An mpirun in the place of a rank starts processes on this node alone. Open MPI (4: OMPI, 5: PRTE)
// would start its daemons on all nodes of the job by srun; MPICH and Intel MPI would too where they
// find the tasks of each node.
void stay_on_node(Environment& e) {
  for (const char* name : {"OMPI_MCA_ras", "OMPI_MCA_plm", "PRTE_MCA_ras", "PRTE_MCA_plm"})
    e.emplace(name, "^slurm");
  e.erase("SLURM_TASKS_PER_NODE");
}

}  // namespace

WallTime exit_before(const wire::Orders& orders, WallTime end, WallTime began) {
  const Duration half = std::max(end - began, Duration{}) / 2;
  return end - std::min(orders.exit_before_limit, half);
}

Environment base_environment(const Environment& inherited, const RunContext& context,
                             const wire::Start& start, std::uint32_t ranks_per_node) {
  Environment e = inherited;
  e.erase(env::kEventWord);  // of an agent around this one
  for (const auto& [key, value] : start.orders.environment) e[key] = value;
  // As torchrun: many ranks with all cores each are slower than one core each.
  if (ranks_per_node > 1) e.emplace("OMP_NUM_THREADS", "1");
  e.emplace("PYTHONUNBUFFERED", "1");
  e[env::kRun] = start.run.text;
  e[env::kRunDirectory] = context.run_directory;
  e[env::kGeneration] = std::to_string(start.generation.value);
  e[env::kStart] = fmt::format("{}/{}/start.json", context.run_directory,
                               wire::generation_name(start.generation));
  if (start.orders.lr_scale != 1) e[env::kLrScale] = fmt::format("{}", start.orders.lr_scale);
  if (start.orders.skip_samples != 0)
    e[env::kSkipSamples] = std::to_string(start.orders.skip_samples);
  if (context.end) {
    const auto before = exit_before(start.orders, *context.end, start.at);
    e[env::kExitBefore] = std::to_string(before.time_since_epoch().count());
  }
  e["SLURMD_NODENAME"] = context.node.text;
  stay_on_node(e);
  return e;
}

Environment rank_environment(const wire::Start& start, const StartRanks& order,
                             std::uint32_t local_rank, const RankMemory& memory) {
  const std::uint32_t rank = order.group_rank * order.ranks_per_node + local_rank;
  const std::uint32_t world = order.groups * order.ranks_per_node;
  Environment e;
  const auto set = [&e](const char* name, const auto& value) {
    e[name] = fmt::format("{}", value);
  };
  set("RANK", rank);
  set("WORLD_SIZE", world);
  set("LOCAL_RANK", local_rank);
  set("LOCAL_WORLD_SIZE", order.ranks_per_node);
  set("GROUP_RANK", order.group_rank);
  set("GROUP_WORLD_SIZE", order.groups);
  set("ROLE_RANK", rank);
  set("ROLE_WORLD_SIZE", world);
  set("ROLE_NAME", "default");
  set("MASTER_ADDR", order.master_address);
  set("MASTER_PORT", order.master_port);
  set("TORCHELASTIC_RESTART_COUNT", order.restarts);
  set("TORCHELASTIC_MAX_RESTARTS", start.orders.restart_budget);
  set("TORCHELASTIC_RUN_ID", start.run.text);
  set("TORCHELASTIC_USE_AGENT_STORE", "False");  // rank 0 makes the store
  set("SLURM_PROCID", rank);
  set("SLURM_LOCALID", local_rank);
  set("SLURM_NODEID", order.group_rank);
  set("SLURM_NTASKS", world);
  set("SLURM_NPROCS", world);
  set("SLURM_NNODES", order.groups);
  set("SLURM_NTASKS_PER_NODE", order.ranks_per_node);
  set(env::kAttempt, order.attempt.value);
  e[env::kStorePrefix] =
      fmt::format("{}.{}.{}", start.run.text, start.generation.value, order.attempt.value);
  if (!memory.heartbeat.empty()) e[env::kHeartbeat] = memory.heartbeat;
  if (!memory.slots.empty()) e[env::kMemory] = memory.slots;
  if (order.memory)
    e[env::kMemoryLoad] =
        fmt::format("{}.{}", order.memory->attempt.value, order.memory->iteration.value);
  if (order.set_load) e[env::kLoad] = order.load.empty() ? "none" : order.load;
  return e;
}

}  // namespace stoker::agent
