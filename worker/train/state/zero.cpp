#include "worker/train/state/zero.hpp"

#include <algorithm>
#include <cstring>

#include "recipe/plan.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kPiece = 4u << 20;  // elements of each rank that travel at a time

// Of `flat` elements of `each` bytes; every rank has its own range of them.
Status gather_flat(Comm& comm, Device& device, void* memory, std::size_t flat, std::size_t each,
                   const Call& call) {
  const std::uint32_t ranks = comm.mesh().dp;
  auto* values = static_cast<char*>(memory);
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
    device.download(mine.data(), values + own.begin * each, own.size() * each);
    STOKER_TRY_STATUS(comm.all_gather(Axis::Data, mine.data(), mine.size(), all.data(), call));
    for (std::uint32_t r = 0; r < ranks; ++r) {
      const FlatRange part = part_of(r);
      device.upload(values + part.begin * each, all.data() + r * mine.size(), part.size() * each);
    }
  }
  return ok();
}

}  // namespace

Status gather_parameters(Comm& comm, FlatState& state, Duration deadline) {
  if (state.owns_all()) return ok();
  return gather_flat(comm, state.device(), state.parameters(), state.table().flat_size,
                     recipe::bytes_per_value(state.dtype()), {"parameters", deadline});
}

Status gather_state(Comm& comm, FlatState& state, Duration deadline) {
  if (state.owns_all() && comm.mesh().dp > 1)
    for (const StatePart which : {StatePart::Parameter, StatePart::Moment1, StatePart::Moment2}) {
      const Buffer part = state.part(which);
      STOKER_TRY_STATUS(gather_flat(comm, state.device(), part.data, part.count,
                                    size_of(part.element), {"state", deadline}));
    }
  state.refresh_parameters();
  return gather_parameters(comm, state, deadline);
}

}  // namespace stoker::train
