#include "worker/train/memory/snapshots.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/os/memory_room.hpp"
#include "common/size_text.hpp"
#include "worker/train/run/say.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kText = 1u << 20;   // room for a shard's manifest
constexpr std::size_t kPiece = 4u << 20;  // travels at a time
constexpr std::size_t kOwn = 0, kCopy = 2;

struct Need {                 // travels between ranks
  std::uint64_t opened = 0;   // the slots are there
  std::uint64_t content = 0;  // of one snapshot
  std::uint64_t have = 0;     // of the slots, already
  std::uint64_t known = 0, free = 0, limit = 0, used = 0;
  char why[300] = {};
};

Need need_of(std::uint64_t content, const std::vector<Slot>& slots, const Status& opened) {
  Need need;
  need.opened = opened ? 1 : 0;
  need.content = content;
  for (const Slot& slot : slots) need.have += slot.room();
  if (const auto room = os::memory_room()) {
    need.known = 1;
    need.free = room->free;
    need.limit = room->limit.value_or(0);
    need.used = room->used.value_or(0);
  }
  if (!opened) {
    const std::string text = opened.error().message();
    std::memcpy(need.why, text.data(), std::min(text.size(), sizeof need.why - 1));
  }
  return need;
}

// The node whose ranks begin at `first`; "" = it fits.
std::string too_small(const std::vector<Need>& all, std::uint32_t first, std::uint32_t local) {
  const auto world = static_cast<std::uint32_t>(all.size());
  std::uint64_t wanted = 0, have = 0, free = UINT64_MAX;
  const Need* least = nullptr;
  for (std::uint32_t r = first; r < first + local; ++r) {
    const std::uint64_t copy = world > local ? all[(r + world - local) % world].content : 0;
    wanted += 2 * (all[r].content + copy);
    have += all[r].have;
    if (all[r].known == 0 || all[r].free >= free) continue;
    least = &all[r];
    free = all[r].free;
  }
  if (least == nullptr || wanted <= have || wanted - have <= free) return "";
  const std::string group = least->limit == 0
                                ? ""
                                : fmt::format(" (its control group has {} and uses {})",
                                              size_text(least->limit), size_text(least->used));
  return fmt::format(
      "the node of rank {} needs {} more memory for snapshots ({} ranks, two generations{}), {} is "
      "free{}",
      first, size_text(wanted - have), local, world > local ? ", own and the partner's" : "",
      size_text(free), group);
}

// This thread gives way to the training.
void step_back() {
  constexpr int kLowest = 19;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kLowest);
}

bool is(const std::optional<wire::SlotHead>& head, const std::optional<wire::SnapshotId>& id) {
  return head && id && head->held.attempt == id->attempt && head->held.iteration == id->iteration;
}

}  // namespace

Snapshots::Snapshots(Parts parts)
    : parts_(std::move(parts)),
      range_(own_range(parts_.state.table(), parts_.comm.mesh(), parts_.comm.rank())),
      shape_(copied_shard(parts_.state, range_)),
      content_(shape_.bytes + kText) {
  const std::uint32_t rank = parts_.comm.rank(), world = parts_.comm.mesh().world();
  const std::uint32_t local = parts_.environment.local_world;
  partner_to_ = (rank + local) % world;
  partner_from_ = (rank + world - local) % world;
}

Snapshots::~Snapshots() {
  if (running_.valid()) running_.wait();
  for (void* memory : pinned_) parts_.state.device().unpin(memory);
}

Status Snapshots::open_slots() {
  const auto& paths = parts_.environment.memory;
  if (paths.size() != wire::kSlotsOfRank)
    return fail("no agent of stoker gives this rank memory", "checkpoint.memory");
  for (const std::string& path : paths) {
    STOKER_TRY(slot, Slot::open(path));
    slots_.push_back(std::move(slot));
  }
  return ok();
}

// Collective. All ranks look before any of them takes. "" = there is room, or no slot at all.
Result<std::string> Snapshots::make_room() {
  const Mesh& mesh = parts_.comm.mesh();
  const std::uint32_t local = parts_.environment.local_world;
  const Status opened = open_slots();
  const Need mine = need_of(content_, slots_, opened);
  std::vector<Need> all(mesh.world());
  STOKER_TRY_STATUS(parts_.comm.all_gather(Axis::World, &mine, sizeof mine, all.data(),
                                           {"memory for snapshots", parts_.deadline}));
  for (std::uint32_t r = 0; r < all.size(); ++r) {
    if (all[r].opened != 0) continue;
    slots_.clear();
    if (parts_.comm.rank() == 0)
      complain(fmt::format("warning: no snapshots in memory: rank {}: {}", r, all[r].why));
    return std::string();
  }
  for (std::uint32_t first = 0; first + local <= mesh.world(); first += local)
    if (std::string why = too_small(all, first, local); !why.empty()) return why;
  Status taken = ok();
  const std::uint64_t copy = has_partner() ? all[partner_from_].content : 0;
  for (std::size_t i = 0; i < slots_.size() && taken; ++i)
    taken = slots_[i].reserve(i < kCopy ? content_ : copy);
  Need done = need_of(content_, slots_, taken);
  STOKER_TRY_STATUS(parts_.comm.all_gather(Axis::World, &done, sizeof done, all.data(),
                                           {"memory for snapshots", parts_.deadline}));
  for (std::uint32_t r = 0; r < all.size(); ++r)
    if (all[r].opened == 0) return fmt::format("rank {}: {}", r, all[r].why);
  return std::string();
}

Result<Snapshots::Opened> Snapshots::open(Parts parts) {
  if (parts.environment.local_world == 0 ||
      parts.comm.mesh().world() % parts.environment.local_world != 0) {
    if (parts.comm.rank() == 0)
      complain("warning: no snapshots in memory: the ranks do not divide over the nodes");
    return Opened{};
  }
  std::unique_ptr<Snapshots> made(new Snapshots(std::move(parts)));
  STOKER_TRY(why, made->make_room());
  Opened opened;
  opened.no_room = std::move(why);
  if (opened.no_room.empty() && !made->slots_.empty()) {
    Device& device = made->parts_.state.device();
    for (std::size_t i = kOwn; i < kCopy && !device.is_host(); ++i) {
      device.pin(made->slots_[i].content(), made->slots_[i].room());
      made->pinned_.push_back(made->slots_[i].content());
    }
    opened.snapshots = std::move(made);
  }
  return opened;
}

// The older one, or what is not whole; never what is kept.
Slot& Snapshots::target(std::size_t first) {
  Slot &one = slots_[first], &other = slots_[first + 1];
  const auto head = one.whole(), second = other.whole();
  if (is(head, kept_)) return other;
  if (is(second, kept_)) return one;
  if (!head || !second) return head ? other : one;
  return head->held.iteration <= second->held.iteration ? one : other;
}

void Snapshots::begin(wire::Manifest manifest, bool beside) {
  const Mesh& mesh = parts_.comm.mesh();
  const FlatState& state = parts_.state;
  if (begun_) kept_ = begun_;  // the sums of an iteration have gone through since
  begun_ = {parts_.environment.attempt, manifest.iteration};
  Slot& slot = target(kOwn);
  slot.begin();
  const ShardId id{manifest.generation, manifest.iteration, parts_.comm.rank(), mesh.world()};
  copy_shard(slot.content(), state, range_, id);
  const bool copies = !state.device().is_host() && !beside;
  if (!state.device().is_host() && beside) (void)state.device().finish_copies();
  manifest.training["shard"] = shape_.layout;
  const std::string text = to_json_text(manifest);
  STOKER_CHECK(text.size() <= kText, "a manifest without ranges is short");
  std::memcpy(slot.content() + shape_.bytes, text.data(), text.size());
  wire::SlotHead head;
  head.held = {manifest.generation, parts_.environment.attempt, manifest.iteration, id.shard,
               id.shards};
  head.shard_bytes = shape_.bytes;
  head.manifest_bytes = text.size();
  running_ = std::async(std::launch::async, [this, head, &slot, copies] {
    step_back();
    return run(head, slot, copies);
  });
}

Status Snapshots::run(wire::SlotHead head, Slot& slot, bool copies) {
  if (copies) STOKER_TRY_STATUS(parts_.state.device().finish_copies());
  head.digest = content_digest(head, slot.content());
  slot.complete(head);
  return has_partner() ? exchange(head, slot) : ok();
}

Status Snapshots::exchange(const wire::SlotHead& mine, const Slot& slot) {
  if (!comm_) {
    STOKER_TRY(connected, parts_.connect());
    comm_ = std::move(connected);
  }
  const Call call{"snapshot", parts_.deadline};
  const auto numbers = wire::encode_slot(mine);
  std::array<char, wire::kSlotNumbers> theirs{};
  STOKER_TRY_STATUS(comm_->send(partner_to_, numbers.data(), numbers.size(), call));
  STOKER_TRY_STATUS(comm_->receive(partner_from_, theirs.data(), theirs.size(), call));
  Slot& copy = target(kCopy);
  const auto head =
      wire::decode_slot({theirs.data(), theirs.size()}, wire::kSlotHeader + copy.room());
  if (!head) return fail("the partner's snapshot has not the size that it announced", "snapshot");
  copy.begin();
  STOKER_TRY_STATUS(receive_all(*head, mine, slot, copy));
  if (content_digest(*head, copy.content()) == head->digest)
    copy.complete(*head);
  else
    complain(
        fmt::format("warning: the snapshot of iteration {} that rank {} sent has arrived "
                    "damaged; test the network between the nodes",
                    head->held.iteration.value, partner_from_));
  return ok();
}

// Both directions by turns: a send returns at once.
Status Snapshots::receive_all(const wire::SlotHead& theirs, const wire::SlotHead& mine,
                              const Slot& from, Slot& to) {
  const Call call{"snapshot", parts_.deadline};
  for (std::uint64_t at = 0; at < std::max(theirs.bytes(), mine.bytes()); at += kPiece) {
    if (at < mine.bytes())
      STOKER_TRY_STATUS(comm_->send(partner_to_, from.content() + at,
                                    std::min<std::uint64_t>(kPiece, mine.bytes() - at), call));
    if (at < theirs.bytes())
      STOKER_TRY_STATUS(comm_->receive(partner_from_, to.content() + at,
                                       std::min<std::uint64_t>(kPiece, theirs.bytes() - at), call));
  }
  return ok();
}

Status Snapshots::finish() {
  return running_.valid() ? running_.get() : ok();
}

}  // namespace stoker::train
