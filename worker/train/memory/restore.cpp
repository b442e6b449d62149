#include "worker/train/memory/restore.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "worker/train/checkpoint/load.hpp"
#include "worker/train/comm/agree.hpp"
#include "worker/train/state/zero.hpp"

namespace stoker::train {
namespace {

constexpr std::uint32_t kNoShard = UINT32_MAX;
constexpr std::size_t kPiece = 4u << 20;  // travels at a time

using Numbers = std::array<char, wire::kSlotNumbers>;

struct Offer {  // of a rank to all: what its node's memory holds of this snapshot
  std::uint32_t shard = kNoShard;
  Numbers head{};
};
using Offers = std::array<Offer, wire::kSlotsOfRank>;

struct Shard {  // what this rank will load
  wire::SlotHead head;
  const char* content = nullptr;
  std::vector<char> received;
};

class Restore {
 public:
  Restore(Comm& comm, FlatState& state, Snapshots& snapshots, Duration deadline)
      : comm_(comm), state_(state), snapshots_(snapshots), call_{"snapshot", deadline} {}

  // The Error is that of the Comm.
  Status gather(const wire::SnapshotId& id, Generation generation) {
    Offers mine;
    for (std::size_t i = 0; i < snapshots_.slots().size(); ++i) {
      const auto head = snapshots_.slots()[i].whole();
      if (!head || head->held.generation != generation || head->held.attempt != id.attempt ||
          head->held.iteration != id.iteration || head->held.shards != comm_.mesh().world())
        continue;
      mine[i] = {head->held.shard, wire::encode_slot(*head)};
    }
    offers_.resize(comm_.mesh().world());
    return comm_.all_gather(Axis::World, &mine, sizeof mine, offers_.data(), call_);
  }

  // "" = every shard is somewhere. The same on all ranks.
  [[nodiscard]] std::string missing() const {
    for (std::uint32_t s = 0; s < comm_.mesh().world(); ++s)
      if (!holder(s)) return fmt::format("the shard of rank {} is in no node's memory", s);
    return "";
  }

  // In one order on all ranks. The Error is that of the Comm.
  Status exchange() {
    for (std::uint32_t s = 0; s < comm_.mesh().world(); ++s) {
      const auto [rank, slot] = *holder(s);
      const Numbers& numbers = offers_[rank][slot].head;
      const auto head = wire::decode_slot({numbers.data(), numbers.size()}, UINT64_MAX);
      const bool gives = rank == comm_.rank(), takes = s == comm_.rank();
      if (takes && head) shard_.head = *head;
      if (gives && takes) shard_.content = snapshots_.slots()[slot].content();
      if (gives == takes || !head) continue;
      if (gives) STOKER_TRY_STATUS(give(s, *head, snapshots_.slots()[slot].content()));
      if (takes) STOKER_TRY_STATUS(take(rank, *head));
    }
    return ok();
  }

  // What lies ready is what was copied, and it is ours. Sets `restored`.
  Status check(Restored& restored) {
    const CopiedShard& shape = snapshots_.shape();
    const wire::SlotHead& head = shard_.head;
    if (shard_.content == nullptr || head.shard_bytes != shape.bytes)
      return fail(fmt::format("{} bytes instead of {}", head.shard_bytes, shape.bytes), "shard");
    if (content_digest(head, shard_.content) != head.digest)
      return fail("its content is not what was copied", "shard");
    const std::string text(shard_.content + head.shard_bytes, head.manifest_bytes);
    STOKER_TRY(manifest, from_json_text<wire::Manifest>(text, "manifest of the shard"));
    if (!manifest.training.is_object() ||
        manifest.training.value("shard", Json()) != Json(shape.layout))
      return fail("it is of another model or mesh", "shard");
    if (manifest.iteration != head.held.iteration || manifest.generation != head.held.generation)
      return fail("its manifest is of another iteration", "shard");
    STOKER_TRY(position, position_of(manifest));
    restored = {std::move(manifest), position};
    return ok();
  }

  // And compares what has arrived in the state with what was copied.
  Status load(const Position& position) {
    const FlatRange range = own_range(state_.table(), comm_.mesh(), comm_.rank());
    STOKER_TRY_STATUS(load_shard(shard_.content, state_, range));
    state_.steps = position.optimizer_steps;
    std::vector<char> again(shard_.head.bytes());
    const wire::HeldSnapshot& held = shard_.head.held;
    copy_shard(again.data(), state_, range,
               {held.generation, held.iteration, held.shard, held.shards});
    STOKER_TRY_STATUS(state_.device().finish_copies());
    std::memcpy(again.data() + shard_.head.shard_bytes, shard_.content + shard_.head.shard_bytes,
                shard_.head.manifest_bytes);
    if (content_digest(shard_.head, again.data()) != shard_.head.digest)
      return fail("what was loaded is not what was copied", "shard");
    return ok();
  }

 private:
  // The needing rank itself, else the lowest one.
  [[nodiscard]] std::optional<std::pair<std::uint32_t, std::size_t>> holder(std::uint32_t s) const {
    std::optional<std::pair<std::uint32_t, std::size_t>> found;
    for (std::uint32_t r = 0; r < offers_.size(); ++r)
      for (std::size_t i = 0; i < offers_[r].size(); ++i)
        if (offers_[r][i].shard == s && (!found || (r == s && found->first != s))) found = {r, i};
    return found;
  }

  Status give(std::uint32_t to, const wire::SlotHead& head, const char* content) {
    for (std::uint64_t at = 0; at < head.bytes(); at += kPiece)
      STOKER_TRY_STATUS(
          comm_.send(to, content + at, std::min<std::uint64_t>(kPiece, head.bytes() - at), call_));
    return ok();
  }

  Status take(std::uint32_t from, const wire::SlotHead& head) {
    shard_.received.resize(head.bytes());
    shard_.content = shard_.received.data();
    for (std::uint64_t at = 0; at < head.bytes(); at += kPiece)
      STOKER_TRY_STATUS(comm_.receive(from, shard_.received.data() + at,
                                      std::min<std::uint64_t>(kPiece, head.bytes() - at), call_));
    return ok();
  }

  Comm& comm_;
  FlatState& state_;
  Snapshots& snapshots_;
  Call call_;
  std::vector<Offers> offers_;
  Shard shard_;
};

}  // namespace

Result<Restored> restore_snapshot(Comm& comm, FlatState& state, Snapshots& snapshots,
                                  const Wanted& wanted, Duration deadline, bool& peer_lost) {
  const wire::SnapshotId& id = wanted.id;
  peer_lost = true;  // until a failure is not the network's
  Restore restore(comm, state, snapshots, deadline);
  STOKER_TRY_STATUS(restore.gather(id, wanted.generation));
  const std::string object = fmt::format("iteration {} in memory", id.iteration.value);
  if (const std::string why = restore.missing(); !why.empty()) {
    peer_lost = false;
    return fail(why, object);
  }
  STOKER_TRY_STATUS(restore.exchange());
  Restored restored;
  const Call call{"snapshot", deadline};
  peer_lost = false;
  STOKER_TRY_STATUS(agree(comm, restore.check(restored), object, call, peer_lost));
  STOKER_TRY_STATUS(agree(comm, restore.load(restored.position), object, call, peer_lost));
  peer_lost = true;
  STOKER_TRY_STATUS(gather_state(comm, state, deadline));
  peer_lost = false;
  snapshots.keep(id);
  return restored;
}

}  // namespace stoker::train
