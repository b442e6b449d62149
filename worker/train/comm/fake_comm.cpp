#include "worker/train/comm/fake_comm.hpp"

#include <cstring>
#include <fmt/format.h>

namespace stoker::train {
namespace {

template <class T>
void sum_into(std::vector<T>& total, const std::vector<const void*>& slots) {
  for (const void* slot : slots) {
    const T* values = static_cast<const T*>(slot);
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += values[i];
  }
}

}  // namespace

void FakeHub::kill(std::uint32_t rank) {
  const std::lock_guard lock(mutex_);
  dead_.insert(rank);
  moved_.notify_all();
}

Status FakeHub::meet(std::unique_lock<std::mutex>& lock, std::uint32_t rank, const Call& call) {
  const std::uint64_t round = round_;
  arrived_.insert(rank);
  if (arrived_.size() == slots_.size()) {
    arrived_.clear();
    ++round_;
    moved_.notify_all();
    return ok();
  }
  const bool moved =
      moved_.wait_for(lock, call.deadline, [&] { return round_ != round || !dead_.empty(); });
  if (round_ != round) return ok();
  if (!dead_.empty())
    return fail(fmt::format("rank {} is gone", *dead_.begin()), call.name, "restart the ranks");
  STOKER_CHECK(!moved, "woken for nothing");
  for (std::uint32_t r = 0; r < slots_.size(); ++r)
    if (!arrived_.contains(r))
      return fail(fmt::format("rank {} did not come in time", r), call.name, "restart the ranks");
  return ok();
}

template <class Use>
Status FakeHub::exchange(std::uint32_t rank, const void* mine, const Call& call, Use use) {
  std::unique_lock lock(mutex_);
  slots_[rank] = mine;
  STOKER_TRY_STATUS(meet(lock, rank, call));
  use(slots_);
  return meet(lock, rank, call);
}

Status FakeComm::all_reduce(Axis, Buffer buffer, const Call& call) {
  const auto reduce = [&]<class T>(T) -> Status {
    std::vector<T> total(buffer.count);
    STOKER_TRY_STATUS(hub_.exchange(rank_, buffer.data, call,
                                    [&](const auto& slots) { sum_into(total, slots); }));
    std::memcpy(buffer.data, total.data(), buffer.bytes());
    return ok();
  };
  return buffer.element == Element::F64 ? reduce(double{}) : reduce(float{});
}

Status FakeComm::all_gather(Axis, const void* mine, std::size_t bytes, void* all,
                            const Call& call) {
  return hub_.exchange(rank_, mine, call, [&](const auto& slots) {
    for (std::size_t r = 0; r < slots.size(); ++r)
      std::memcpy(static_cast<char*>(all) + r * bytes, slots[r], bytes);
  });
}

}  // namespace stoker::train
