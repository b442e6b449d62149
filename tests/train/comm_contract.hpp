// What every Comm must do, as one function that each rank of a mesh runs.
#pragma once

#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>
#include <vector>

#include "worker/train/comm/comm.hpp"

namespace stoker::train::testing {

// Values whose sum depends on the order of the additions.
template <class T>
std::vector<T> awkward(std::uint32_t rank, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<T>(1) / static_cast<T>(3 + 7 * rank + i % 101) *
                (rank % 2 == 0 ? static_cast<T>(1e6) : static_cast<T>(-1));
  return values;
}

template <class T>
void check_sum(Comm& comm, Axis axis, std::size_t count, Element element) {
  const auto group = comm.mesh().group(axis, comm.rank());
  std::vector<T> mine = awkward<T>(comm.rank(), count), want = awkward<T>(group[0], count);
  std::vector<T> largest = mine, most = want;
  for (std::size_t r = 1; r < group.size(); ++r) {
    const auto next = awkward<T>(group[r], count);
    for (std::size_t i = 0; i < count; ++i) {
      want[i] += next[i];
      most[i] = std::max(most[i], next[i]);
    }
  }
  CHECK(comm.all_reduce(axis, Reduce::Sum, {mine.data(), count, element}, {"sum", 30s}));
  CHECK(comm.all_reduce(axis, Reduce::Max, {largest.data(), count, element}, {"max", 30s}));
  CHECK(mine == want);  // to the bit: in rank order
  CHECK(largest == most);
}

// Each rank's part of the sum, in rank order as all_reduce.
template <class T>
void check_scattered_sum(Comm& comm, Axis axis, std::size_t each, Element element) {
  const auto group = comm.mesh().group(axis, comm.rank());
  std::vector<T> all = awkward<T>(comm.rank(), each * group.size()), whole = all, mine(each);
  CHECK(comm.all_reduce(axis, Reduce::Sum, {whole.data(), whole.size(), element}, {"sum", 30s}));
  CHECK(comm.reduce_scatter(axis, {all.data(), all.size(), element}, mine.data(), {"part", 30s}));
  const auto at = std::find(group.begin(), group.end(), comm.rank()) - group.begin();
  const auto begin = whole.begin() + at * static_cast<std::ptrdiff_t>(each);
  CHECK(mine == std::vector<T>(begin, begin + static_cast<std::ptrdiff_t>(each)));
  CHECK(all == awkward<T>(comm.rank(), each * group.size()));
}

inline void check_transfers(Comm& comm) {
  const std::uint32_t world = comm.mesh().world();
  const std::uint32_t next = (comm.rank() + 1) % world, before = (comm.rank() + world - 1) % world;
  // All send first: a send does not wait for its receive. Different sizes keep their order.
  for (std::uint32_t i = 1; i <= 4; ++i) {
    const std::vector<std::uint32_t> message(i * 1000, comm.rank() * 10 + i);
    CHECK(comm.send(next, message.data(), message.size() * 4, {"ring", 30s}));
  }
  for (std::uint32_t i = 1; i <= 4; ++i) {
    std::vector<std::uint32_t> got(i * 1000);
    CHECK(comm.receive(before, got.data(), got.size() * 4, {"ring", 30s}));
    CHECK(got == std::vector<std::uint32_t>(i * 1000, before * 10 + i));
  }
}

inline void check_contract(Comm& comm) {
  for (const Axis axis : {Axis::World, Axis::Tensor, Axis::Data, Axis::Embedding}) {
    const auto group = comm.mesh().group(axis, comm.rank());
    if (group.empty()) continue;
    check_sum<float>(comm, axis, 1, Element::F32);
    check_sum<double>(comm, axis, 1000, Element::F64);
    check_sum<float>(comm, axis, 2'500'001, Element::F32);  // more than travels at a time
    check_scattered_sum<float>(comm, axis, 1, Element::F32);
    check_scattered_sum<double>(comm, axis, 70'001, Element::F64);
    std::vector<std::uint32_t> all(group.size());
    const std::uint32_t mine = comm.rank();
    CHECK(comm.all_gather(axis, &mine, sizeof mine, all.data(), {"gather", 30s}));
    CHECK(all == group);
  }
  check_transfers(comm);
}

}  // namespace stoker::train::testing
