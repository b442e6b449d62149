// A job's first acts: claim the submission's token, read the newest orders, mint the generation.
// Everything is judged by link(2) (common/os/files.hpp: claim_file), so of any number of claimants
// on any hosts exactly one goes on. Blocks on the run directory's file system.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "wire/agent_event.hpp"
#include "wire/orders.hpp"
#include "worker/agent/run_context.hpp"

namespace stoker::agent {

// Orders count only if our own user wrote them (common/os/own_files.hpp). A file of another user is
// passed over; what is wrong with it is a line in `Refused`.
using Refused = std::set<std::string>;

// The orders that hold for this start: the newest file of orders/, with the flags over it; from the
// flags alone when it is missing.
Result<wire::Orders> read_orders(const RunContext& context, const RunOptions& options,
                                 Refused& refused);

// The newest orders that are at least those of this submission: a network file system may show them
// late (nfs(5): acdirmax 60 s). After `most` what there is.
inline constexpr Duration kOrdersLatest = 90s;
Result<std::optional<wire::Orders>> orders_of_submission(const RunContext& context,
                                                         Refused& refused,
                                                         Duration most = kOrdersLatest,
                                                         Duration look = 1s);
// The newest file of orders/ as it is; empty when there is no file.
Result<std::optional<wire::Orders>> newest_orders(const std::string& run_directory,
                                                  Refused& refused);

// The highest generation that has been minted; empty before the first.
std::optional<Generation> newest_generation(const std::string& run_directory);

// False: another job start holds the claim; `holder` says which.
struct ClaimResult {
  bool ours = false;
  std::string holder;
};
Result<ClaimResult> claim_start(const RunContext& context);

struct ResumePoint {
  std::optional<wire::Start> parent;
  Iteration iteration;
  std::string load;  // directory name of the checkpoint, "" = from scratch
  std::vector<wire::DamagedCheckpoint> damaged;  // seen while it was chosen
};
// Error: an exact resume point is not there or is damaged; or all that could be one are.
Result<ResumePoint> resume_point(const RunContext& context, const wire::Orders& orders);

struct Minted {
  wire::Start start;
  std::string path;  // of start.json
  std::string load;  // directory name of the checkpoint at the resume point, "" = from scratch
  std::vector<wire::DamagedCheckpoint> damaged;  // seen while the resume point was chosen
};
// Makes gen-NNNNNN/start.json. Error: --generation is taken, the disk is full.
Result<Minted> mint_generation(const RunContext& context, const wire::Orders& orders,
                               const ResumePoint& point);

// The start.json of the highest generations, newest first, without those that cannot be read.
std::vector<wire::Start> newest_starts(const RunContext& context, std::size_t most);

// The generation whose start.json carries our claim, when it is there.
std::optional<wire::Start> find_generation(const RunContext& context);

std::string generation_directory(const RunContext& context, Generation generation);

}  // namespace stoker::agent
