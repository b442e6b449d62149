#include "worker/train/state/zero.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "recipe/plan.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kTravels = 8u << 20;  // bytes of all ranks at a time

// What each replica owns of a range, cut into pieces that travel one after the other: as many
// elements of each rank at a time, of which a rank with less leaves the end unused.
class Pieces {
 public:
  // `each`: bytes an element.
  Pieces(const FlatState& state, FlatRange range, std::uint32_t ranks, std::size_t each) {
    for (std::uint32_t r = 0; r < ranks; ++r) {
      const FlatRange own = shard_range(state.table().flat_size, r, ranks);
      const std::size_t begin = std::clamp(own.begin, range.begin, range.end);
      own_.push_back({begin, std::clamp(own.end, begin, range.end)});
      largest_ = std::max(largest_, own_.back().size());
    }
    most_ =
        std::clamp<std::size_t>(kTravels / (each * ranks), 1, std::max<std::size_t>(1, largest_));
  }
  [[nodiscard]] bool done() const { return at_ >= largest_; }
  void next() { at_ += most_; }
  [[nodiscard]] std::size_t most() const { return most_; }  // elements of a rank's piece
  [[nodiscard]] std::size_t size() const { return std::min(most_, largest_ - at_); }  // of this one
  [[nodiscard]] FlatRange of(std::uint32_t rank) const {
    const std::size_t begin = std::min(own_[rank].end, own_[rank].begin + at_);
    return {begin, std::min(own_[rank].end, begin + size())};
  }

 private:
  std::vector<FlatRange> own_;
  std::size_t largest_ = 0, most_ = 1, at_ = 0;
};

// Of elements of `each` bytes; every rank has its own range of them.
Status gather_flat(Comm& comm, const FlatState& state, void* memory, std::size_t each,
                   const Call& call) {
  const std::uint32_t ranks = comm.mesh().dp, mine = comm.mesh().data_rank(comm.rank());
  Device& device = state.device();
  auto* values = static_cast<char*>(memory);
  Pieces pieces(state, {0, state.table().flat_size}, ranks, each);
  std::vector<char> one(pieces.most() * each), all(one.size() * ranks);
  for (; !pieces.done(); pieces.next()) {
    const FlatRange own = pieces.of(mine);
    const std::size_t bytes = pieces.size() * each;
    device.download(one.data(), values + own.begin * each, own.size() * each);
    STOKER_TRY_STATUS(comm.all_gather(Axis::Data, one.data(), bytes, all.data(), call));
    for (std::uint32_t r = 0; r < ranks; ++r) {
      const FlatRange part = pieces.of(r);
      device.upload(values + part.begin * each, all.data() + r * bytes, part.size() * each);
    }
  }
  return ok();
}

// Each rank's own part alone; in the CPU's memory.
Status sum_own(Comm& comm, const FlatState& state, FlatRange range, const Call& call) {
  const std::uint32_t ranks = comm.mesh().dp, mine = comm.mesh().data_rank(comm.rank());
  const std::size_t each = size_of(state.element());
  auto* gradients = static_cast<char*>(state.gradients().data);
  Pieces pieces(state, range, ranks, each);
  std::vector<char> one(pieces.most() * each), all(one.size() * ranks);
  for (; !pieces.done(); pieces.next()) {
    const std::size_t bytes = pieces.size() * each;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      const FlatRange part = pieces.of(r);
      std::memcpy(all.data() + r * bytes, gradients + part.begin * each, part.size() * each);
    }
    STOKER_TRY_STATUS(comm.reduce_scatter(
        Axis::Data, {all.data(), pieces.size() * ranks, state.element()}, one.data(), call));
    const FlatRange own = pieces.of(mine);
    std::memcpy(gradients + own.begin * each, one.data(), own.size() * each);
  }
  return ok();
}

}  // namespace

// On a GPU the whole sum stays there: how its parts would travel was never measured.
Status sum_gradients(Comm& comm, FlatState& state, FlatRange range, Duration deadline) {
  const Call call{"gradients", deadline};
  if (!state.owns_all() && state.device().is_host()) return sum_own(comm, state, range, call);
  return comm.all_reduce(Axis::Data, Reduce::Sum, state.gradients(range), call);
}

Status gather_parameters(Comm& comm, FlatState& state, Duration deadline) {
  if (state.owns_all()) return ok();
  return gather_flat(comm, state, state.parameters(), recipe::bytes_per_value(state.dtype()),
                     {"parameters", deadline});
}

Status gather_state(Comm& comm, FlatState& state, Duration deadline) {
  if (state.owns_all() && comm.mesh().dp > 1)
    for (const StatePart which : {StatePart::Parameter, StatePart::Moment1, StatePart::Moment2}) {
      const Buffer part = state.part(which);
      STOKER_TRY_STATUS(
          gather_flat(comm, state, part.data, size_of(part.element), {"state", deadline}));
    }
  state.refresh_parameters();
  return gather_parameters(comm, state, deadline);
}

}  // namespace stoker::train
