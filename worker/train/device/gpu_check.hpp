// Which GPU a rank takes, and every reason not to start on it, said in one line before anything is
// allocated. What the node says is a plain value (GpuFacts), so tests play every node.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "worker/train/comm/comm.hpp"

namespace stoker::train {

struct GpuFacts {
  struct Card {
    std::string bus;  // "0000:1b:00.0"
    int major = 0, minor = 0;
    int compute_mode = 0;  // cudaComputeMode: 2 prohibited
  };
  int driver = 0;   // the newest CUDA that the driver serves, 13000 for 13.0; 0: no driver
  int runtime = 0;  // the CUDA that this program was built with
  std::string why;  // what CUDA answered instead of a list of cards
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES
  std::vector<Card> cards;             // that this process sees
};

// What this program was built for.
struct GpuBuild {
  std::vector<int> architectures{90};  // of the kernels: 90 is sm_90
  std::string libtorch;                // "2.11.0"
};

// The place of this rank among those of its node: torchrun's LOCAL_RANK and LOCAL_WORLD_SIZE.
struct NodePlace {
  std::uint32_t rank = 0, ranks = 1;
};

// Errors: LOCAL_RANK or LOCAL_WORLD_SIZE is no number, or missing in a world of several ranks.
Result<NodePlace> read_node_place(std::uint32_t world);

// The ordinal of the rank's card. `libtorch` is the version of the library that was loaded.
// A process that sees one card on a node of several ranks was given its own (SLURM, docker).
// `nodes_fault`: what is wrong is this node, another may do.
Result<int> choose_gpu(const GpuFacts& facts, const GpuBuild& build, const NodePlace& place,
                       const std::string& libtorch, bool& nodes_fault);

// Collective over the world: no two ranks on one card. The Error names both.
Status check_own_gpu(Comm& comm, const std::string& host, const std::string& bus,
                     Duration deadline);

std::string cuda_version_text(int code);  // 13000 -> "13.0"

}  // namespace stoker::train
