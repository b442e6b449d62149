#include "worker/train/state/zero.hpp"

#include <algorithm>
#include <cstring>

#include "recipe/plan.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kPiece = 4u << 20;  // elements of each rank that travel at a time

}  // namespace

Status gather_parameters(Comm& comm, FlatState& state, Duration deadline) {
  if (state.owns_all()) return ok();
  const std::uint32_t ranks = comm.mesh().dp;
  const std::size_t flat = state.table().flat_size, each = recipe::bytes_per_value(state.dtype());
  auto* parameters = static_cast<char*>(state.parameters());
  std::size_t largest = 0;
  for (std::uint32_t r = 0; r < ranks; ++r)
    largest = std::max(largest, shard_range(flat, r, ranks).size());
  const std::size_t piece = std::min(kPiece, largest);
  std::vector<char> mine(piece * each), all(piece * each * ranks);
  for (std::size_t at = 0; at < largest; at += piece) {
    const auto part_of = [&](std::uint32_t r) {
      const FlatRange range = shard_range(flat, r, ranks);
      const std::size_t begin = std::min(range.end, range.begin + at);
      return FlatRange{begin, std::min(range.end, begin + piece)};
    };
    const FlatRange own = part_of(comm.mesh().data_rank(comm.rank()));
    state.device().download(mine.data(), parameters + own.begin * each, own.size() * each);
    STOKER_TRY_STATUS(comm.all_gather(Axis::Data, mine.data(), mine.size(), all.data(),
                                      {"parameters", deadline}));
    for (std::uint32_t r = 0; r < ranks; ++r) {
      const FlatRange part = part_of(r);
      state.device().upload(parameters + part.begin * each, all.data() + r * mine.size(),
                            part.size() * each);
    }
  }
  return ok();
}

}  // namespace stoker::train
