// What this node can do without its GPUs, measured in a few seconds: GEMM, memory, disk, loopback
// network. Figures to compare nodes with each other, not to publish.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"

namespace stoker::agent {

struct BenchFigure {
  std::string name;  // "gemm_f32", "memory_copy", "disk_write", "disk_read", "loopback"
  double value = 0;
  std::string unit;
  std::string note;
  STOKER_FIELDS(BenchFigure, name, value, unit, note)
};

// `directory`: where the disk is measured; what is written there is removed again. "" = not at all.
std::vector<BenchFigure> bench_node(const std::string& directory, std::size_t megabytes = 256);

}  // namespace stoker::agent
