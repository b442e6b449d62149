// Mesh: how the ranks of a training are arranged. Rank order is tensor fastest, then data, then
// pipeline (Megatron's), so that tensor-parallel peers share a node.
#pragma once

#include <cstdint>
#include <vector>

namespace stoker::train {

// Whom a call is with. Embedding: the first and the last pipeline rank, which both hold the tied
// embedding.
enum class Axis { World, Tensor, Data, Embedding };

struct Mesh {
  std::uint32_t tp = 1, pp = 1, dp = 1;
  [[nodiscard]] std::uint32_t world() const { return tp * pp * dp; }
  [[nodiscard]] std::uint32_t tensor_rank(std::uint32_t rank) const { return rank % tp; }
  [[nodiscard]] std::uint32_t data_rank(std::uint32_t rank) const { return rank / tp % dp; }
  [[nodiscard]] std::uint32_t pipe_rank(std::uint32_t rank) const { return rank / (tp * dp); }
  // The rank with the same tensor and data rank on another pipeline rank.
  [[nodiscard]] std::uint32_t on_pipe(std::uint32_t rank, std::uint32_t pipe) const {
    return rank % (tp * dp) + pipe * tp * dp;
  }
  // The ranks that `rank` meets on an axis, itself too, in ascending order. Empty: it is not on the
  // axis (Embedding in the middle of a pipeline).
  [[nodiscard]] std::vector<std::uint32_t> group(Axis axis, std::uint32_t rank) const;
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

}  // namespace stoker::train
