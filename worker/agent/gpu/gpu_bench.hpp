// The node bench's GPU part: each GPU of this node, all at once. Copies to the card and back, the
// bandwidth of its memory, then a burn on its tensor cores with NVML's counters before and after;
// at the end copies to the next GPU. What the figures mean: recipe/gpu_bench.hpp.
//
// A driver may hang: each GPU has a thread of its own, and what has not answered in time is named
// and left behind. So this belongs into a short-lived process (`stoker-agent bench`).
#pragma once

#include <optional>

#include "wire/node_messages.hpp"
#include "worker/agent/gpu/cuda_driver.hpp"
#include "worker/agent/node/nvml.hpp"

namespace stoker::agent {

struct GpuBenchPlan {
  Duration burn = 10s;
  Duration beside = 45s;  // for everything else; what takes longer hangs
  std::size_t copied = std::size_t{1} << 30, carried = std::size_t{64} << 20;  // bytes, at most
  std::uint32_t launches = 32;  // of the burn, between two looks at its results
};

struct GpuBench {
  std::vector<wire::GpuFigures> gpus;
  std::string note;      // why no GPU was tested
  bool hanging = false;  // a thread is still in the driver: leave by _exit
};

GpuBench bench_gpus(const CudaTable& cuda, const std::optional<NvmlTable>& nvml,
                    const GpuBenchPlan& plan);
// With the driver of this node.
GpuBench bench_gpus(const GpuBenchPlan& plan);

}  // namespace stoker::agent
