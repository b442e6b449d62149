#include "worker/train/comm/fake_comm.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace stoker::train {

void FakeHub::kill(std::uint32_t rank) {
  const std::lock_guard lock(mutex_);
  dead_.insert(rank);
  moved_.notify_all();
}

Status FakeHub::lost(const Ranks& group, const Call& call) const {
  for (const std::uint32_t rank : group)
    if (dead_.contains(rank))
      return fail(fmt::format("rank {} is gone", rank), call.name, "restart the ranks");
  return ok();
}

Status FakeHub::meet(std::unique_lock<std::mutex>& lock, const Ranks& group, std::uint32_t rank,
                     const Call& call) {
  Meeting& meeting = meetings_[group];
  const std::uint64_t round = meeting.round;
  meeting.arrived.insert(rank);
  if (meeting.arrived.size() == group.size()) {
    meeting.arrived.clear();
    ++meeting.round;
    moved_.notify_all();
    return ok();
  }
  moved_.wait_for(lock, call.deadline,
                  [&] { return meeting.round != round || !lost(group, call); });
  if (meeting.round != round) return ok();
  STOKER_TRY_STATUS(lost(group, call));
  for (const std::uint32_t r : group)
    if (!meeting.arrived.contains(r))
      return fail(fmt::format("rank {} did not come in time", r), call.name, "restart the ranks");
  return ok();
}

template <class Use>
Status FakeHub::exchange(const Ranks& group, std::uint32_t rank, const void* mine, const Call& call,
                         Use use) {
  std::unique_lock lock(mutex_);
  meetings_[group].shown[rank] = mine;
  STOKER_TRY_STATUS(meet(lock, group, rank, call));
  use(meetings_[group].shown);
  return meet(lock, group, rank, call);
}

Status FakeComm::all_reduce(Axis axis, Reduce how, Buffer buffer, const Call& call) {
  std::string total(buffer.bytes(), '\0');
  STOKER_TRY_STATUS(hub_.exchange(
      hub_.mesh().group(axis, rank_), rank_, buffer.data, call, [&](const auto& shown) {
        bool first = true;
        for (const auto& [rank, data] : shown) {
          if (first)
            std::memcpy(total.data(), data, total.size());
          else
            reduce_into({total.data(), buffer.count, buffer.element}, data, how);
          first = false;
        }
      }));
  std::memcpy(buffer.data, total.data(), total.size());
  return ok();
}

Status FakeComm::all_gather(Axis axis, const void* mine, std::size_t bytes, void* all,
                            const Call& call) {
  return hub_.exchange(hub_.mesh().group(axis, rank_), rank_, mine, call, [&](const auto& shown) {
    char* out = static_cast<char*>(all);
    for (const auto& [rank, data] : shown) {
      std::memcpy(out, data, bytes);
      out += bytes;
    }
  });
}

Status FakeComm::reduce_scatter(Axis axis, Buffer all, void* mine, const Call& call) {
  const auto group = hub_.mesh().group(axis, rank_);
  const std::size_t bytes = all.bytes() / group.size();
  const std::size_t at = bytes * static_cast<std::size_t>(
                                     std::find(group.begin(), group.end(), rank_) - group.begin());
  return hub_.exchange(group, rank_, all.data, call, [&](const auto& shown) {
    bool first = true;
    for (const auto& [rank, data] : shown) {
      const char* part = static_cast<const char*>(data) + at;
      if (first)
        std::memcpy(mine, part, bytes);
      else
        reduce_into({mine, all.count / group.size(), all.element}, part, Reduce::Sum);
      first = false;
    }
  });
}

Status FakeComm::send(std::uint32_t to, const void* data, std::size_t bytes, const Call& call) {
  const std::lock_guard lock(hub_.mutex_);
  STOKER_TRY_STATUS(hub_.lost({to}, call));
  hub_.sent_[{rank_, to}].emplace_back(static_cast<const char*>(data), bytes);
  hub_.moved_.notify_all();
  return ok();
}

Status FakeComm::receive(std::uint32_t from, void* data, std::size_t bytes, const Call& call) {
  std::unique_lock lock(hub_.mutex_);
  auto& sent = hub_.sent_[{from, rank_}];
  hub_.moved_.wait_for(lock, call.deadline,
                       [&] { return !sent.empty() || !hub_.lost({from}, call); });
  if (sent.empty()) {
    STOKER_TRY_STATUS(hub_.lost({from}, call));
    return fail(fmt::format("rank {} did not come in time", from), call.name, "restart the ranks");
  }
  if (sent.front().size() != bytes)
    return fail(fmt::format("rank {} sent {} bytes, {} were due", from, sent.front().size(), bytes),
                call.name);
  std::memcpy(data, sent.front().data(), bytes);
  sent.pop_front();
  return ok();
}

}  // namespace stoker::train
