// What a rank learns from its environment: torchrun's variables and stoker's own. Without any it is
// a training of one rank, started by hand.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "wire/node_messages.hpp"

namespace stoker::train {

struct RankEnvironment {
  std::uint32_t rank = 0, world = 1;
  std::uint32_t local_world = 1;  // ranks of this node
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 29500;

  std::string run = "training";
  std::optional<std::string> run_directory;  // set: an agent supervises us
  Generation generation;                     // 0: started by hand
  Attempt attempt{1};
  std::string store_prefix;
  std::optional<std::string> heartbeat;         // path of our page
  std::optional<std::string> start;             // path of start.json
  std::optional<std::string> load;              // checkpoint directory, or "none"
  std::vector<std::string> memory;              // paths of our slots for snapshots
  std::optional<wire::SnapshotId> memory_load;  // is tried before `load`
  double lr_scale = 1;
  std::uint64_t skip_samples = 0;
  std::optional<WallTime> exit_before;

  [[nodiscard]] bool first() const { return rank == 0; }
  [[nodiscard]] bool last() const { return rank + 1 == world; }
};

// Errors: a variable that is no number of its range; rank outside the world.
Result<RankEnvironment> read_rank_environment();

}  // namespace stoker::train
