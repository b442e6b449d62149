// Comm: what the training core asks of a network, on plain memory. Every call is collective over
// the axis: all its ranks make the same calls in the same order. Every call is bounded by its
// deadline: a peer that died or is silent ends it with an Error that names the call and the missing
// ranks, never an endless wait; after an Error the Comm is unusable, and a large buffer of the
// failed all_reduce may still be written to: the process must end without freeing it. Results are
// the same bits on all ranks and in every run (fixed order of addition). One thread a Comm.
#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "common/time.hpp"
#include "worker/train/comm/mesh.hpp"

namespace stoker::train {

enum class Axis { World, Data };
enum class Element { F32, F64 };

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

  // In place, sum over the axis.
  virtual Status all_reduce(Axis axis, Buffer buffer, const Call& call) = 0;
  // `all` has room for the axis' size x `bytes`; in rank order.
  virtual Status all_gather(Axis axis, const void* mine, std::size_t bytes, void* all,
                            const Call& call) = 0;
};

}  // namespace stoker::train
