// The repair of replicas.hpp: what differs is copied from the rank that is taken to be right.
#include <algorithm>
#include <cstring>

#include "worker/train/state/copies.hpp"
#include "worker/train/state/replicas.hpp"
#include "worker/train/state/zero.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kTravelling = 1u << 20;  // elements that travel at a time

char* at_element(const Buffer& buffer, std::size_t element) {
  return static_cast<char*>(buffer.data) + element * size_of(buffer.element);
}

FlatRange common(FlatRange a, FlatRange b) {
  const std::size_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

class Copier {
 public:
  Copier(Comm& comm, FlatState& state, Duration deadline)
      : comm_(comm), state_(state), deadline_(deadline) {}

  // Masters and moments of one parameter, from the rank at place `good` of the axis.
  Status copy(Axis axis, const Parameter& p, std::size_t good) {
    for (const StatePart part : {StatePart::Parameter, StatePart::Moment1, StatePart::Moment2})
      for (std::size_t first = 0; first < p.count; first += kTravelling)
        STOKER_TRY_STATUS(
            copy_window(axis, state_.part(part), good,
                        {p.offset + first, p.offset + std::min(p.count, first + kTravelling)}));
    return ok();
  }

 private:
  Status copy_window(Axis axis, const Buffer& buffer, std::size_t good, FlatRange window) {
    const std::size_t bytes = window.size() * size_of(buffer.element);
    const std::size_t ranks = comm_.mesh().group(axis, comm_.rank()).size();
    std::vector<char> mine(bytes), all(bytes * ranks);
    STOKER_TRY_STATUS(collect(buffer, window, mine));
    STOKER_TRY_STATUS(
        comm_.all_gather(axis, mine.data(), bytes, all.data(), {"repair", deadline_}));
    place(buffer, window, all.data() + good * bytes, common(window, state_.owned()));
    return ok();
  }

  // What this rank and its data-parallel peers own of the window: all of it.
  Status collect(const Buffer& buffer, FlatRange window, std::vector<char>& out) {
    state_.device().download(out.data(), at_element(buffer, window.begin), out.size());
    if (state_.owns_all()) return ok();
    const std::uint32_t ranks = comm_.mesh().dp;
    std::vector<char> all(out.size() * ranks);
    STOKER_TRY_STATUS(
        comm_.all_gather(Axis::Data, out.data(), out.size(), all.data(), {"repair", deadline_}));
    for (std::uint32_t r = 0; r < ranks; ++r) {
      const FlatRange part = common(window, shard_range(state_.table().flat_size, r, ranks));
      const std::size_t each = size_of(buffer.element), from = (part.begin - window.begin) * each;
      std::memcpy(out.data() + from, all.data() + r * out.size() + from, part.size() * each);
    }
    return ok();
  }

  void place(const Buffer& buffer, FlatRange window, const char* values, FlatRange part) {
    const std::size_t each = size_of(buffer.element);
    state_.device().upload(at_element(buffer, part.begin),
                           values + (part.begin - window.begin) * each, part.size() * each);
  }

  Comm& comm_;
  FlatState& state_;
  Duration deadline_;
};

}  // namespace

Status repair_drift(Comm& comm, FlatState& state, bool tied, Duration deadline) {
  const bool shares = !state.owns_all();
  Copier copier(comm, state, deadline);
  for (const Copies& copies : copies_of(state.table(), tied)) {
    if (comm.mesh().group(copies.axis, comm.rank()).size() < 2) continue;
    if (!(shares && copies.axis == Axis::Data)) {
      STOKER_TRY(differing, differing_of(comm, state, copies, deadline));
      // With ZeRO the peers that own the rest must take part, whose own copies may be equal.
      for (const Parameter* p : copies.shared) {
        const auto found = std::find_if(differing.begin(), differing.end(),
                                        [&](const Differing& d) { return d.parameter == p; });
        const bool differs = found != differing.end();
        if (differs || shares)
          STOKER_TRY_STATUS(copier.copy(copies.axis, *p, differs ? found->good : 0));
      }
    }
    state.refresh_parameters();
    STOKER_TRY_STATUS(gather_parameters(comm, state, deadline));
  }
  return ok();
}

}  // namespace stoker::train
