#include "worker/train/comm/mesh.hpp"

namespace stoker::train {

std::vector<std::uint32_t> Mesh::group(Axis axis, std::uint32_t rank) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t r = 0; r < world(); ++r) {
    const bool same_tensor = tensor_rank(r) == tensor_rank(rank);
    const bool same_data = data_rank(r) == data_rank(rank);
    const bool same_pipe = pipe_rank(r) == pipe_rank(rank);
    const auto at_end = [&](std::uint32_t other) {
      return pipe_rank(other) == 0 || pipe_rank(other) + 1 == pp;
    };
    const bool meets =
        axis == Axis::World || (axis == Axis::Tensor && same_data && same_pipe) ||
        (axis == Axis::Data && same_tensor && same_pipe) ||
        (axis == Axis::Embedding && same_tensor && same_data && at_end(r) && at_end(rank));
    if (meets) ranks.push_back(r);
  }
  return ranks;
}

}  // namespace stoker::train
