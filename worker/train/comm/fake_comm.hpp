// FakeComm: the ranks of a data-parallel group as threads of one process, for tests and dry runs.
// Sums go in rank order. A rank can be declared dead: calls that need it then fail like a
// network's.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "worker/train/comm/comm.hpp"

namespace stoker::train {

// What the ranks share. Outlives its FakeComms.
class FakeHub {
 public:
  explicit FakeHub(std::uint32_t ranks) : slots_(ranks) {}
  void kill(std::uint32_t rank);  // from now on every call fails, naming it
  [[nodiscard]] std::uint32_t ranks() const { return static_cast<std::uint32_t>(slots_.size()); }

 private:
  friend class FakeComm;
  // Shows `mine` to all ranks; when all have arrived, `use` sees every rank's pointer, and nobody
  // returns before all have used theirs.
  template <class Use>
  Status exchange(std::uint32_t rank, const void* mine, const Call& call, Use use);
  Status meet(std::unique_lock<std::mutex>& lock, std::uint32_t rank, const Call& call);

  std::mutex mutex_;
  std::condition_variable moved_;
  std::vector<const void*> slots_;
  std::set<std::uint32_t> arrived_, dead_;
  std::uint64_t round_ = 0;
};

class FakeComm final : public Comm {
 public:
  FakeComm(FakeHub& hub, std::uint32_t rank) : hub_(hub), rank_(rank), mesh_{1, 1, hub.ranks()} {}
  [[nodiscard]] const Mesh& mesh() const override { return mesh_; }
  [[nodiscard]] std::uint32_t rank() const override { return rank_; }
  Status all_reduce(Axis axis, Buffer buffer, const Call& call) override;
  Status all_gather(Axis axis, const void* mine, std::size_t bytes, void* all,
                    const Call& call) override;

 private:
  FakeHub& hub_;
  std::uint32_t rank_;
  Mesh mesh_;
};

}  // namespace stoker::train
