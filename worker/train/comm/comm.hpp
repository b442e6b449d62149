// Comm: what the training core asks of a network, on plain memory. Every call but send and receive
// is collective over the axis: all its ranks make the same calls in the same order. Every call is
// bounded by its deadline: a peer that died or is silent ends it with an Error that names the call
// and the missing ranks, never an endless wait; after an Error the Comm is unusable. No call writes
// to the caller's memory after it has returned. Sums go in rank order: the same bits on all ranks
// and in every run. One thread a Comm.
#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "common/time.hpp"
#include "worker/train/comm/mesh.hpp"

namespace stoker::train {

enum class Element { F32, F64 };
enum class Reduce { Sum, Max };

constexpr std::size_t size_of(Element element) {
  return element == Element::F64 ? 8 : 4;
}

struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;
  Element element = Element::F32;
  [[nodiscard]] std::size_t bytes() const { return count * size_of(element); }
};

struct Call {
  const char* name;   // "gradients": appears in errors and in the heartbeat page
  Duration deadline;  // of this call
};

class Comm {
 public:
  virtual ~Comm() = default;
  [[nodiscard]] virtual const Mesh& mesh() const = 0;
  [[nodiscard]] virtual std::uint32_t rank() const = 0;

  // In place.
  virtual Status all_reduce(Axis axis, Reduce how, Buffer buffer, const Call& call) = 0;
  // `all` has room for the axis' size x `bytes`; in rank order.
  virtual Status all_gather(Axis axis, const void* mine, std::size_t bytes, void* all,
                            const Call& call) = 0;
  // `all` is one equal part for each rank of the axis, in rank order; `mine` becomes the sum of all
  // ranks' parts for this rank.
  virtual Status reduce_scatter(Axis axis, Buffer all, void* mine, const Call& call) = 0;
  // To and from a rank of the world, in the order of the sends between the two. send copies and
  // returns at once; what it could not deliver is the error of a later call.
  virtual Status send(std::uint32_t to, const void* data, std::size_t bytes, const Call& call) = 0;
  virtual Status receive(std::uint32_t from, void* data, std::size_t bytes, const Call& call) = 0;
};

// total[i] = total[i] + next[i], or the larger one.
void reduce_into(Buffer total, const void* next, Reduce how);

}  // namespace stoker::train
