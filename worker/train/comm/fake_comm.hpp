// FakeComm: the ranks of a mesh as threads of one process, for tests and dry runs. A rank can be
// declared dead: calls that need it then fail like a network's.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "worker/train/comm/comm.hpp"

namespace stoker::train {

// What the ranks share. Outlives its FakeComms.
class FakeHub {
 public:
  explicit FakeHub(Mesh mesh) : mesh_(mesh) {}
  void kill(std::uint32_t rank);  // from now on every call that needs it fails, naming it
  [[nodiscard]] const Mesh& mesh() const { return mesh_; }

 private:
  friend class FakeComm;
  using Ranks = std::vector<std::uint32_t>;
  struct Meeting {  // of one group
    std::map<std::uint32_t, const void*> shown;
    std::set<std::uint32_t> arrived;
    std::uint64_t round = 0;
  };
  // Shows `mine` to all ranks of the group; when all have arrived, `use` sees every rank's pointer
  // in rank order, and no rank returns before all have used theirs.
  template <class Use>
  Status exchange(const Ranks& group, std::uint32_t rank, const void* mine, const Call& call,
                  Use use);
  Status meet(std::unique_lock<std::mutex>& lock, const Ranks& group, std::uint32_t rank,
              const Call& call);
  [[nodiscard]] Status lost(const Ranks& group, const Call& call) const;  // a dead one is in it

  Mesh mesh_;
  std::mutex mutex_;
  std::condition_variable moved_;
  std::map<Ranks, Meeting> meetings_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<std::string>> sent_;  // from, to
  std::set<std::uint32_t> dead_;
};

class FakeComm final : public Comm {
 public:
  FakeComm(FakeHub& hub, std::uint32_t rank) : hub_(hub), rank_(rank) {}
  [[nodiscard]] const Mesh& mesh() const override { return hub_.mesh(); }
  [[nodiscard]] std::uint32_t rank() const override { return rank_; }
  Status all_reduce(Axis axis, Reduce how, Buffer buffer, const Call& call) override;
  Status all_gather(Axis axis, const void* mine, std::size_t bytes, void* all,
                    const Call& call) override;
  Status reduce_scatter(Axis axis, Buffer all, void* mine, const Call& call) override;
  Status send(std::uint32_t to, const void* data, std::size_t bytes, const Call& call) override;
  Status receive(std::uint32_t from, void* data, std::size_t bytes, const Call& call) override;

 private:
  FakeHub& hub_;
  std::uint32_t rank_;
};

}  // namespace stoker::train
