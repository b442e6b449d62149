// SelfComm: a world of one rank.
#pragma once

#include <cstring>
#include <deque>

#include "worker/train/comm/comm.hpp"

namespace stoker::train {

class SelfComm final : public Comm {
 public:
  [[nodiscard]] const Mesh& mesh() const override { return mesh_; }
  [[nodiscard]] std::uint32_t rank() const override { return 0; }
  Status all_reduce(Axis, Reduce, Buffer, const Call&) override { return ok(); }
  Status all_gather(Axis, const void* mine, std::size_t bytes, void* all, const Call&) override {
    std::memcpy(all, mine, bytes);
    return ok();
  }
  Status reduce_scatter(Axis, Buffer all, void* mine, const Call&) override {
    std::memcpy(mine, all.data, all.bytes());
    return ok();
  }
  Status send(std::uint32_t, const void* data, std::size_t bytes, const Call&) override {
    sent_.emplace_back(static_cast<const char*>(data), bytes);
    return ok();
  }
  Status receive(std::uint32_t, void* data, std::size_t bytes, const Call& call) override {
    if (sent_.empty() || sent_.front().size() != bytes)
      return fail("rank 0 did not send this", call.name);
    std::memcpy(data, sent_.front().data(), bytes);
    sent_.pop_front();
    return ok();
  }

 private:
  Mesh mesh_;
  std::deque<std::string> sent_;
};

}  // namespace stoker::train
