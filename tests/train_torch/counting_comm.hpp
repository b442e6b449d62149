// A Comm that counts what goes over one axis.
#pragma once

#include <map>

#include "worker/train/comm/comm.hpp"

namespace stoker::train::testing {

// Counts the bytes of all calls over one axis, by kind; of a gather those that arrive.
class CountingComm final : public Comm {
 public:
  CountingComm(Comm& inner, Axis axis) : inner_(inner), axis_(axis) {}
  [[nodiscard]] const Mesh& mesh() const override { return inner_.mesh(); }
  [[nodiscard]] std::uint32_t rank() const override { return inner_.rank(); }
  Status all_reduce(Axis axis, Reduce how, Buffer buffer, const Call& call) override {
    if (axis == axis_) summed[buffer.bytes()] += 1;
    return inner_.all_reduce(axis, how, buffer, call);
  }
  Status all_gather(Axis axis, const void* mine, std::size_t bytes, void* all,
                    const Call& call) override {
    if (axis == axis_) gathered += bytes * mesh().group(axis, rank()).size();
    return inner_.all_gather(axis, mine, bytes, all, call);
  }
  Status reduce_scatter(Axis axis, Buffer all, void* mine, const Call& call) override {
    if (axis == axis_) scattered += all.bytes();
    return inner_.reduce_scatter(axis, all, mine, call);
  }
  Status send(std::uint32_t to, const void* data, std::size_t bytes, const Call& call) override {
    return inner_.send(to, data, bytes, call);
  }
  Status receive(std::uint32_t from, void* data, std::size_t bytes, const Call& call) override {
    return inner_.receive(from, data, bytes, call);
  }
  std::size_t gathered = 0, scattered = 0;
  std::map<std::size_t, std::size_t> summed;  // bytes of a sum -> how many

 private:
  Comm& inner_;
  Axis axis_;
};

}  // namespace stoker::train::testing
