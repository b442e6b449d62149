// Mesh: how the ranks of a training are arranged. Rank order is tensor fastest, then data, then
// pipeline (Megatron's), so that tensor-parallel peers share a node.
#pragma once

#include <cstdint>

namespace stoker::train {

struct Mesh {
  std::uint32_t tp = 1, pp = 1, dp = 1;
  [[nodiscard]] std::uint32_t world() const { return tp * pp * dp; }
  [[nodiscard]] std::uint32_t data_rank(std::uint32_t rank) const { return rank / tp % dp; }
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

}  // namespace stoker::train
