// Snapshots: the shards of this rank and of its partner on the node before, in memory of this
// node's agent. The training waits for one copy; digest and exchange with the partner run beside
// the next forward and backward, over connections of their own. finish() comes before the sums of
// that iteration: when these have gone through, the snapshot is whole on all ranks.
//
// Two generations: what was whole on all ranks last is never written over.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "wire/checkpoint_manifest.hpp"
#include "worker/train/checkpoint/shard_file.hpp"
#include "worker/train/comm/comm.hpp"
#include "worker/train/memory/slot.hpp"
#include "worker/train/run/rank_environment.hpp"
#include "worker/train/state/flat_state.hpp"

namespace stoker::train {

class Snapshots {
 public:
  // Another Comm over the same ranks, for another thread. Called in that thread.
  using Connect = std::function<Result<std::unique_ptr<Comm>>()>;
  struct Parts {  // all outlive it
    Comm& comm;
    const RankEnvironment& environment;
    const FlatState& state;
    std::uint64_t every = 0;
    Duration deadline;
    Connect connect;
  };
  struct Opened {
    std::unique_ptr<Snapshots> snapshots;  // null: none is made, and rank 0 has said why
    std::string no_room;                   // with the numbers; the same on all ranks
  };
  // Collective. The Error is that of the Comm.
  static Result<Opened> open(Parts parts);
  ~Snapshots();
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  [[nodiscard]] bool due(Iteration iteration) const { return iteration.value % parts_.every == 0; }
  // Copies the state. `manifest` has everything but tensors, ranges, files and digest. `beside`:
  // another copy of the device's memory is under way.
  void begin(wire::Manifest manifest, bool beside);
  [[nodiscard]] bool pending() const { return running_.valid(); }
  // Waits for the thread. The Error is that of its Comm: a peer was lost.
  Status finish();

  [[nodiscard]] std::vector<Slot>& slots() { return slots_; }
  // Was loaded: it stays until a newer one is whole on all ranks.
  void keep(const wire::SnapshotId& id) { kept_ = id; }
  [[nodiscard]] std::uint64_t bytes() const { return content_; }  // of one snapshot
  [[nodiscard]] bool has_partner() const { return partner_to_ != parts_.comm.rank(); }
  [[nodiscard]] const CopiedShard& shape() const { return shape_; }

 private:
  explicit Snapshots(Parts parts);
  Status open_slots();
  Result<std::string> make_room();
  Slot& target(std::size_t first);  // of two: the one that may be written over
  Status run(wire::SlotHead head, Slot& slot, bool copies);
  Status exchange(const wire::SlotHead& mine, const Slot& slot);
  Status receive_all(const wire::SlotHead& theirs, const wire::SlotHead& mine, const Slot& from,
                     Slot& to);

  Parts parts_;
  FlatRange range_;
  CopiedShard shape_;  // of range_
  std::uint64_t content_ = 0;
  std::uint32_t partner_to_ = 0, partner_from_ = 0;
  std::vector<Slot> slots_;  // as wire::SlotUse
  std::vector<void*> pinned_;
  std::unique_ptr<Comm> comm_;  // the thread's
  std::optional<wire::SnapshotId> kept_, begun_;
  std::future<Status> running_;
};

}  // namespace stoker::train
