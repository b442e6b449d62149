#include "worker/train/comm/nccl_pairs.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace stoker::train {
namespace {

constexpr std::size_t kMostSends = 4;  // to one rank that are not delivered yet
constexpr Duration kLook = 200us;
constexpr Duration kStoreLook = 5ms;  // while a pair of ranks comes together
constexpr Duration kJoining = 2s;     // a send waits this long for it; then later calls deliver
constexpr int kNotReady = 600;        // CudaDevice::query

static std::string channel_key(std::uint32_t from, std::uint32_t to) {
  return fmt::format("nccl/{}.{}", from, to);
}

}  // namespace

Result<NcclId> agreed_nccl_id(const NcclPorts& ports, const Store& store, const std::string& key,
                              bool makes, Duration deadline) {
  NcclId id;
  if (makes) {
    if (const int result = ports.nccl.unique_id(&id); result != kNcclSuccess)
      return fail(fmt::format("NCCL makes no id (error {})", result), key);
    STOKER_TRY_STATUS(store.put(key, std::string(id.bytes, sizeof id.bytes)));
    return id;
  }
  const Instant end = ports.now() + deadline;
  for (;;) {
    STOKER_TRY(value, store.get(key));
    if (value && value->size() == sizeof id.bytes) {
      std::copy(value->begin(), value->end(), id.bytes);
      return id;
    }
    if (ports.now() >= end)
      return fail(fmt::format("peer lost: no NCCL id within {}", format_duration(deadline)), key,
                  "restart the ranks");
    ports.pause(kLook);
  }
}

Result<NcclPairs::Channel*> NcclPairs::channel_of(std::uint32_t from, std::uint32_t to) {
  Channel& channel = channels_[{from, to}];
  if (channel.group) return &channel;
  channel.sends = from == options_.rank;
  channel.stream = device_.new_stream();
  STOKER_TRY_STATUS(device_.status());
  STOKER_TRY(
      id, agreed_nccl_id(ports_, store_, channel_key(from, to), channel.sends, options_.deadline));
  auto group = NcclGroup::start(
      ports_, {fmt::format("{} to {}", from, to), {from, to}, channel.sends ? 0u : 1u}, id);
  if (!group) return fail(group.error());
  channel.group = std::make_unique<NcclGroup>(std::move(*group));
  return &channel;
}

// The channels that others want to send to us through: a rank that waits in a send must not hold
// up one that waits for it.
Status NcclPairs::join_incoming() {
  if (ports_.now() < next_look_) return ok();
  next_look_ = ports_.now() + kStoreLook;
  for (std::uint32_t from = 0; from < options_.mesh.world(); ++from) {
    if (from == options_.rank || channels_[{from, options_.rank}].group) continue;
    STOKER_TRY(id, store_.get(channel_key(from, options_.rank)));
    if (!id) continue;
    STOKER_TRY(channel, channel_of(from, options_.rank));
    (void)channel;
  }
  return ok();
}

// What waits is queued; what has arrived is forgotten.
Status NcclPairs::push(Channel& channel) {
  for (Message& message : channel.messages) {
    if (message.queued) continue;
    device_.order(device_.stream(), channel.stream);
    STOKER_TRY_STATUS(
        channel.group->exchange({{message.data, message.bytes, NcclType::U8, 1, true}},
                                {channel.stream, "send", options_.deadline}));
    message.queued = true;
  }
  if (device_.query(channel.stream) == 0) channel.messages.clear();
  return ok();
}

Status NcclPairs::poll() {
  const bool joins = std::any_of(channels_.begin(), channels_.end(), [](const auto& entry) {
    return entry.second.group && !entry.second.ready;
  });
  if (joins) STOKER_TRY_STATUS(join_incoming());
  for (auto& [ends, channel] : channels_) {
    if (!channel.group) continue;
    if (!channel.ready) {
      STOKER_TRY(ready, channel.group->ready());
      channel.ready = ready;
    }
    if (channel.ready && channel.sends) STOKER_TRY_STATUS(push(channel));
  }
  return device_.status();
}

Status NcclPairs::pause(Instant end, const Call& call, std::uint32_t peer) {
  STOKER_TRY_STATUS(poll());
  if (ports_.now() >= end)
    return fail(fmt::format("{} with rank {} did not end within {}", call.name, peer,
                            format_duration(call.deadline)));
  ports_.pause(kLook);
  return ok();
}
Status NcclPairs::send(std::uint32_t to, const void* data, std::size_t bytes, const Call& call) {
  STOKER_TRY(channel, channel_of(options_.rank, to));
  const Instant end = ports_.now() + call.deadline;
  while (channel->messages.size() >= kMostSends) STOKER_TRY_STATUS(pause(end, call, to));
  auto room = std::make_unique<DeviceRoom>(device_);
  STOKER_TRY(copy, room->get(bytes));
  device_.copy(copy, data, bytes);
  channel->messages.push_back({std::move(room), copy, bytes, false});
  STOKER_TRY_STATUS(poll());
  // Once for each pair: the other end joins as soon as it sends or receives anything.
  const Instant joined = std::min(end, ports_.now() + kJoining);
  while (!channel->ready && ports_.now() < joined) {
    STOKER_TRY_STATUS(poll());
    ports_.pause(kLook);
  }
  return poll();
}

Status NcclPairs::receive(std::uint32_t from, char* data, std::size_t bytes, const Call& call) {
  STOKER_TRY(channel, channel_of(from, options_.rank));
  const Instant end = ports_.now() + call.deadline;
  while (!channel->ready) STOKER_TRY_STATUS(pause(end, call, from));
  const NcclCall transfer{channel->stream, call.name, call.deadline};
  STOKER_TRY_STATUS(channel->group->exchange({{data, bytes, NcclType::U8, 0, false}}, transfer));
  while (device_.query(channel->stream) == kNotReady) STOKER_TRY_STATUS(pause(end, call, from));
  return channel->group->wait(transfer);
}

void NcclPairs::abort(const std::string& why) {
  for (auto& [ends, channel] : channels_)
    if (channel.group) channel.group->abort(why);
}

}  // namespace stoker::train
