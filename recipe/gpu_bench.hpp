// The GPU part of the node bench: each GPU against those of its kind that were tested at the same
// time: on the nodes that nothing is held against, where they are too few also on its own. What it
// is compared with is the fleet's own: the median, less what is usual within it. A figure that a
// GPU lacks says nothing about it.
//
//   gpu_gemm_bf16, gpu_gemm_f32   TFLOP/s on its tensor cores, through the whole burn
//   gpu_clock                     MHz, the mean of the burn
//   gpu_memory                    GB/s within its memory, read and written
//   gpu_to_device, gpu_to_host    GB/s from pinned memory and back
//   gpu_peer                      GB/s to the next GPU of the node, by NVLink or PCIe
//
// Bad by themselves, where they are not 0: gpu_wrong (sums of the burn that came out wrong),
// gpu_wrong_copies (bytes that came back different), gpu_ecc (new uncorrected errors), gpu_failed
// (CUDA's number of an error that ends the card's work), gpu_hung (where others have finished).
// Beside them: gpu_ecc_corrected, gpu_celsius, gpu_held_down (share of the burn in which heat or
// the hardware held the clocks down).
#pragma once

#include "recipe/node_bench.hpp"

namespace stoker::recipe {

struct GpuReading {
  std::string pci, model;
  NodeFigures figures;
};
using NodeGpus = std::map<NodeName, std::vector<GpuReading>>;

struct PoorGpu {
  NodeName node;
  std::string pci;
  std::string figure;
  double value = 0;
  double usual = 0, limit = 0;  // of the others; both 0: the figure is bad by itself
  std::string more;             // what may explain it: "" or "; clocks held down in 80 % of it"
};

// From wire::GpuFigures, which cannot be named here.
template <class Gpus>
NodeGpus gpu_readings(const std::map<NodeName, Gpus>& gpus) {
  NodeGpus readings;
  for (const auto& [node, list] : gpus)
    for (const auto& gpu : list) readings[node].push_back({gpu.gpu.pci, gpu.model, gpu.figures});
  return readings;
}

// The GPUs of the tested nodes that did badly, the worst figure of each.
std::vector<PoorGpu> judge_gpus(const std::vector<NodeName>& tested, const NodeGpus& gpus);

// A test is repeated: what was bad by itself the first time stays so.
void keep_faults(NodeFigures& figures, const NodeFigures& before);

// "GPU 0000:cb:00: gpu_gemm_bf16 310, below 579; the median of the others is 612".
std::string bench_text(const PoorGpu& poor);

}  // namespace stoker::recipe
