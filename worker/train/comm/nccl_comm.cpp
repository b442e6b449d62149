#include "worker/train/comm/nccl_comm.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "worker/train/device/device_room.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kSmall = 64u << 10;  // bytes: gathered by all ranks, then added
constexpr std::size_t kChunk = 8u << 20;   // bytes of a large sum that travel at a time

class NcclComm final : public Comm {
 public:
  NcclComm(const NcclOptions& options, NcclPorts ports, CudaDevice& device, Store store)
      : options_(options),
        ports_(std::move(ports)),
        device_(device),
        store_(std::move(store)),
        pairs_(options_, ports_, device, store_),
        source_(device),
        parts_(device),
        sum_(device) {}

  Status meet() {
    const Ranks world = options_.mesh.group(Axis::World, options_.rank);
    STOKER_TRY(id,
               agreed_nccl_id(ports_, store_, "nccl/world", options_.rank == 0, options_.deadline));
    auto all = NcclGroup::begin(ports_, {"world", world, options_.rank}, id, options_.deadline);
    if (!all) return lost(all.error(), "the start");
    groups_.emplace(Axis::World, std::move(*all));
    const Mesh& mesh = options_.mesh;
    STOKER_TRY_STATUS(split(Axis::Tensor, "tensor", mesh.tp));
    STOKER_TRY_STATUS(split(Axis::Data, "data", mesh.dp));
    return split(Axis::Embedding, "embedding", mesh.pp > 1 ? 2 : 1);
  }

  [[nodiscard]] const Mesh& mesh() const override { return options_.mesh; }
  [[nodiscard]] std::uint32_t rank() const override { return options_.rank; }

  Status all_reduce(Axis axis, Reduce how, Buffer buffer, const Call& call) override {
    const Ranks ranks = options_.mesh.group(axis, options_.rank);
    if (ranks.size() < 2) return ok();
    const Instant end = ports_.now() + call.deadline;
    const std::size_t each = size_of(buffer.element);
    const std::size_t step = buffer.bytes() <= kSmall ? buffer.count : kChunk / each;
    for (std::size_t at = 0; at < buffer.count; at += step) {
      const Buffer part{static_cast<char*>(buffer.data) + at * each,
                        std::min(step, buffer.count - at), buffer.element};
      const Call rest{call.name, std::max(Duration(1ms), Duration(end - ports_.now()))};
      const Status added = watched(rest, [&]() -> Status {
        STOKER_TRY(here, on_device(part.data, part.bytes()));
        const Buffer mine{here, part.count, part.element};
        STOKER_TRY_STATUS(part.bytes() <= kSmall ? gather_and_add(axis, ranks, how, mine, rest)
                                                 : share_and_add(axis, ranks, how, mine, rest));
        deliver(part.data, here, part.bytes());
        return device_.status();
      });
      if (!added) return added;
    }
    return ok();
  }

  Status all_gather(Axis axis, const void* mine, std::size_t bytes, void* all,
                    const Call& call) override {
    const Ranks ranks = options_.mesh.group(axis, options_.rank);
    if (ranks.size() < 2) {
      deliver(all, mine, bytes);
      return device_.status();
    }
    return watched(call, [&]() -> Status {
      STOKER_TRY(from, on_device(const_cast<void*>(mine), bytes));
      STOKER_TRY(parts, parts_.get(bytes * ranks.size()));
      STOKER_TRY_STATUS(gather(axis, from, bytes, parts, call));
      deliver(all, parts, bytes * ranks.size());
      return device_.status();
    });
  }

  Status reduce_scatter(Axis axis, Buffer all, void* mine, const Call& call) override {
    const Ranks ranks = options_.mesh.group(axis, options_.rank);
    if (ranks.size() < 2) {
      deliver(mine, all.data, all.bytes());
      return device_.status();
    }
    return watched(call, [&]() -> Status {
      STOKER_TRY(here, on_device(all.data, all.bytes()));
      const std::size_t bytes = all.bytes() / ranks.size();
      STOKER_TRY(sum, sum_.get(bytes));
      STOKER_TRY_STATUS(
          add_parts(axis, ranks, Reduce::Sum, {here, all.count, all.element}, sum, call));
      deliver(mine, sum, bytes);
      return device_.status();
    });
  }

  Status send(std::uint32_t to, const void* data, std::size_t bytes, const Call& call) override {
    return watched(call, [&] { return pairs_.send(to, data, bytes, call); });
  }

  Status receive(std::uint32_t from, void* data, std::size_t bytes, const Call& call) override {
    return watched(call, [&]() -> Status {
      STOKER_TRY(room, sum_.get(bytes));
      STOKER_TRY_STATUS(pairs_.receive(from, room, bytes, call));
      deliver(data, room, bytes);
      return device_.status();
    });
  }

 private:
  using Ranks = std::vector<std::uint32_t>;
  // Collective over the world; all ranks make the same splits.
  Status split(Axis axis, const char* name, std::uint32_t size) {
    if (size < 2 || size == options_.mesh.world()) return ok();
    Ranks ranks = options_.mesh.group(axis, options_.rank);
    if (ranks.empty()) ranks = {options_.rank};
    const auto me = std::find(ranks.begin(), ranks.end(), options_.rank) - ranks.begin();
    const auto color = static_cast<int>(ranks[0]);
    auto group = groups_.at(Axis::World)
                     .split(color, {name, std::move(ranks), static_cast<std::uint32_t>(me)},
                            options_.deadline);
    if (!group) return lost(group.error(), "the start");
    groups_.emplace(axis, std::move(*group));
    return ok();
  }

  NcclGroup& group_of(Axis axis) {
    const auto found = groups_.find(axis);
    return found != groups_.end() ? found->second : groups_.at(Axis::World);
  }

  // The same bytes in the device's memory.
  Result<char*> on_device(void* memory, std::size_t bytes) {
    if (device_.holds(memory)) return static_cast<char*>(memory);
    STOKER_TRY(room, source_.get(bytes));
    device_.copy(room, memory, bytes);
    return room;
  }
  void deliver(void* to, const void* from, std::size_t bytes) {
    if (to == from) return;
    if (device_.holds(to))
      device_.copy(to, from, bytes);
    else if (device_.holds(from))
      device_.download(to, from, bytes);
    else
      std::memcpy(to, from, bytes);
  }

  Status gather(Axis axis, const char* mine, std::size_t bytes, char* all, const Call& call) {
    const NcclCall how{device_.stream(), call.name, call.deadline};
    STOKER_TRY_STATUS(group_of(axis).all_gather(mine, all, bytes, NcclType::U8, how));
    return group_of(axis).wait(how);
  }

  Status gather_and_add(Axis axis, const Ranks& ranks, Reduce how, Buffer mine, const Call& call) {
    STOKER_TRY(parts, parts_.get(mine.bytes() * ranks.size()));
    STOKER_TRY_STATUS(gather(axis, static_cast<char*>(mine.data), mine.bytes(), parts, call));
    add_up(mine, parts, mine.bytes(), ranks.size(), how);
    return device_.status();
  }

  // total = the first part, then the others in order.
  void add_up(Buffer total, const char* parts, std::size_t each, std::size_t count, Reduce how) {
    device_.copy(total.data, parts, total.bytes());
    for (std::size_t r = 1; r < count; ++r) device_.reduce_into(total, parts + r * each, how);
  }

  // Each rank adds up its part over all ranks, then all parts go to all ranks.
  Status share_and_add(Axis axis, const Ranks& ranks, Reduce how, Buffer mine, const Call& call) {
    const std::size_t bytes = part_of(mine, ranks) * size_of(mine.element);
    STOKER_TRY(sum, sum_.get(bytes));
    STOKER_TRY_STATUS(add_parts(axis, ranks, how, mine, sum, call));
    STOKER_TRY(parts, parts_.get(bytes * ranks.size()));
    STOKER_TRY_STATUS(gather(axis, sum, bytes, parts, call));
    device_.copy(mine.data, parts, mine.bytes());
    return device_.status();
  }

  static std::size_t part_of(const Buffer& all, const Ranks& ranks) {
    return (all.count + ranks.size() - 1) / ranks.size();
  }

  // `sum` becomes this rank's part of `mine`, over all ranks; the last parts may be shorter.
  Status add_parts(Axis axis, const Ranks& ranks, Reduce how, const Buffer& mine, char* sum,
                   const Call& call) {
    const std::size_t part = part_of(mine, ranks);
    const std::size_t each = size_of(mine.element), bytes = part * each;
    const auto me = static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), options_.rank) -
                                             ranks.begin());
    const auto count_of = [&](std::size_t r) {
      return std::min(part, mine.count - std::min(mine.count, r * part));
    };
    STOKER_TRY(parts, parts_.get(bytes * ranks.size()));
    auto* data = static_cast<char*>(mine.data);
    std::vector<NcclTransfer> transfers;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const auto peer = static_cast<std::uint32_t>(r);
      if (r == me) continue;
      if (count_of(r) > 0)
        transfers.push_back({data + r * bytes, count_of(r) * each, NcclType::U8, peer, true});
      if (count_of(me) > 0)
        transfers.push_back({parts + r * bytes, count_of(me) * each, NcclType::U8, peer, false});
    }
    if (count_of(me) > 0) device_.copy(parts + me * bytes, data + me * bytes, count_of(me) * each);
    const NcclCall exchange{device_.stream(), call.name, call.deadline};
    STOKER_TRY_STATUS(group_of(axis).exchange(transfers, exchange));
    STOKER_TRY_STATUS(group_of(axis).wait(exchange));
    if (count_of(me) > 0)
      add_up({sum, count_of(me), mine.element}, parts, bytes, ranks.size(), how);
    return device_.status();
  }

  template <class F>
  Status watched(const Call& call, F run) {
    if (broken_) return fail("the groups were given up after an earlier failure", call.name);
    Status done = device_.status();
    if (done) done = pairs_.poll();
    if (done) done = run();
    if (done) return done;
    if (const Status device = device_.status(); !device) {
      give_up("the GPU failed");
      return device;  // ours, not a peer's
    }
    if (is_out_of_memory(done.error())) return done;
    return lost(done.error(), call.name);
  }

  Status lost(const Error& why, const char* call) {
    give_up("a peer was lost");
    return fail(
        fmt::format("peer lost: rank {} does not answer any more ({})", store_.missing(), why.what),
        fmt::format("collective \"{}\" on rank {}", call, options_.rank), "restart the ranks");
  }

  void give_up(const std::string& why) {
    broken_ = true;
    for (auto& [axis, group] : groups_) group.abort(why);
    pairs_.abort(why);
  }

  NcclOptions options_;
  NcclPorts ports_;
  CudaDevice& device_;
  Store store_;
  NcclPairs pairs_;
  DeviceRoom source_, parts_, sum_;
  std::map<Axis, NcclGroup> groups_;
  bool broken_ = false;
};

}  // namespace

Result<std::unique_ptr<Comm>> connect_nccl(const NcclOptions& options, NcclPorts ports,
                                           CudaDevice& device, Store store) {
  auto comm = std::make_unique<NcclComm>(options, std::move(ports), device, std::move(store));
  STOKER_TRY_STATUS(comm->meet());
  return std::unique_ptr<Comm>(std::move(comm));
}

}  // namespace stoker::train
