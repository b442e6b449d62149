#include "worker/train/state/replicas.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>

#include "recipe/plan.hpp"
#include "worker/train/state/copies.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kWindow = 1u << 16;  // elements that are compared at a time

// What a rank found in the groups that it belongs to; sent to all.
struct Found {
  std::uint64_t tensors = 0;
  std::uint32_t good = 0, outvoted = 0, count = 0;
  std::uint32_t ranks[kDriftRanks] = {};
  char tensor[160] = {}, element[64] = {}, part[16] = {};
};

template <std::size_t N>
void put(char (&to)[N], std::string_view text) {
  std::memcpy(to, text.data(), std::min(text.size(), N - 1));
}

std::string element_text(const Parameter& p, std::uint64_t in_box) {
  std::uint64_t at = 0;
  wire::for_each_run(p.shape, p.box, in_box, 1, [&](const wire::Run& run) { at = run.in_tensor; });
  std::string text;
  for (std::size_t axis = p.shape.size(); axis-- > 0; at /= p.shape[axis])
    text = fmt::format("{}{}{}", at % p.shape[axis], text.empty() ? "" : ", ", text);
  return "[" + text + "]";
}

// A memory that the ranks of a group hold copies of: of one parameter.
struct Memory {
  const char* part;
  const char* data;  // of the box
  std::size_t each;  // bytes of an element: 2 of bf16, 4, 8
};

std::vector<Memory> memories_of(const FlatState& state, const Parameter& p) {
  std::vector<Memory> all;
  const std::size_t narrow = recipe::bytes_per_value(state.dtype());
  if (!state.owns_all())
    return {
        {"parameter", static_cast<const char*>(state.parameters()) + p.offset * narrow, narrow}};
  for (const StatePart part : {StatePart::Parameter, StatePart::Moment1, StatePart::Moment2}) {
    const Buffer buffer = state.part(part);
    const std::size_t each = size_of(buffer.element);
    all.push_back(
        {part_name(part).data(), static_cast<const char*>(buffer.data) + p.offset * each, each});
  }
  return all;
}

template <class T>
double value_at(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<double>(value);
}

double value_of(const char* bytes, std::size_t each) {
  if (each == sizeof(double)) return value_at<double>(bytes);
  if (each == sizeof(float)) return value_at<float>(bytes);
  kernels::Bf16 narrow;
  std::memcpy(&narrow, bytes, sizeof narrow);
  return static_cast<double>(kernels::to_float(narrow));
}

// Where two copies are furthest apart: one changed element changes others in the steps since, by
// less.
struct Spot {
  double apart = -1;  // below 0: nowhere
  std::size_t element = 0;
};

void widen(Spot& spot, const char* good, const char* bad, std::size_t each, std::size_t element) {
  if (std::memcmp(good, bad, each) == 0) return;
  const double apart = std::abs(value_of(good, each) - value_of(bad, each));
  const double size = std::isfinite(apart) ? apart : std::numeric_limits<double>::max();
  if (size > spot.apart) spot = {size, element};
}

// Collective over the group.
Result<Spot> widest(Comm& comm, const Device& device, Axis axis, const Differing& d,
                    const Memory& memory, Duration deadline) {
  Spot spot;
  const std::size_t ranks = comm.mesh().group(axis, comm.rank()).size();
  const std::size_t count = d.parameter->count;
  std::vector<char> all(ranks * std::min(kWindow, count) * memory.each);
  for (std::size_t at = 0; at < count; at += kWindow) {
    const std::size_t bytes = std::min(kWindow, count - at) * memory.each;
    const HostView mine(device, memory.data + at * memory.each, bytes);
    STOKER_TRY_STATUS(
        comm.all_gather(axis, mine.data(), bytes, all.data(), {"replicas", deadline}));
    for (std::size_t i = 0; i < bytes; i += memory.each)
      for (const std::size_t bad : d.bad)
        widen(spot, all.data() + d.good * bytes + i, all.data() + bad * bytes + i, memory.each,
              at + i / memory.each);
  }
  return spot;
}

// Of the tensors that differ, the one whose copies are furthest apart; their moments count where
// no parameter differs. Collective over the group.
Status locate(Comm& comm, const FlatState& state, Axis axis,
              const std::vector<Differing>& differing, Duration deadline, Found& found) {
  const auto group = comm.mesh().group(axis, comm.rank());
  const Differing* worst = nullptr;
  Spot most;
  for (std::size_t part = 0; worst == nullptr && part < (state.owns_all() ? 3 : 1); ++part)
    for (const Differing& d : differing) {
      const Memory memory = memories_of(state, *d.parameter)[part];
      STOKER_TRY(spot, widest(comm, state.device(), axis, d, memory, deadline));
      if (spot.apart <= most.apart) continue;
      most = spot, worst = &d;
      found = {};
      put(found.part, memory.part);
    }
  if (worst == nullptr) return ok();
  put(found.tensor, worst->parameter->name);
  put(found.element, element_text(*worst->parameter, most.element));
  found.good = group[worst->good];
  found.outvoted = worst->outvoted ? 1 : 0;
  for (const std::size_t bad : worst->bad)
    if (found.count < kDriftRanks) found.ranks[found.count++] = group[bad];
  return ok();
}

Drift drift_of(const Found& found) {
  Drift drift{found.tensor, found.element,       found.part,   {},
              found.good,   found.outvoted != 0, found.tensors};
  drift.ranks.assign(found.ranks, found.ranks + std::min<std::size_t>(found.count, kDriftRanks));
  return drift;
}

}  // namespace

std::string Drift::text() const {
  std::string who;
  for (const std::uint32_t rank : ranks) who += fmt::format("{}{}", who.empty() ? "" : ", ", rank);
  return fmt::format("{}{}: its {} on rank{} {} differs from that on rank {}{}{}", tensor, element,
                     part, ranks.size() == 1 ? "" : "s", who, good,
                     outvoted ? " and most others" : "",
                     tensors > 1 ? fmt::format("; {} tensors differ", tensors) : "");
}

Result<std::optional<Drift>> find_drift(Comm& comm, const FlatState& state, bool tied,
                                        Duration deadline) {
  Found mine;
  for (const Copies& copies : copies_of(state.table(), tied)) {
    STOKER_TRY(differing, differing_of(comm, state, copies, deadline));
    if (differing.empty()) continue;
    // Every rank of the group looks, also one that has found another tensor before.
    Found here;
    STOKER_TRY_STATUS(locate(comm, state, copies.axis, differing, deadline, here));
    if (mine.tensors == 0) mine = here;
    mine.tensors += differing.size();
  }
  auto any = static_cast<double>(mine.tensors);
  STOKER_TRY_STATUS(
      comm.all_reduce(Axis::World, Reduce::Max, {&any, 1, Element::F64}, {"replicas", deadline}));
  if (any == 0) return std::optional<Drift>();
  std::vector<Found> all(comm.mesh().world());
  STOKER_TRY_STATUS(
      comm.all_gather(Axis::World, &mine, sizeof mine, all.data(), {"replicas", deadline}));
  const auto found =
      std::find_if(all.begin(), all.end(), [](const Found& f) { return f.tensors > 0; });
  return std::optional(drift_of(*found));
}

}  // namespace stoker::train
