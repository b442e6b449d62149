#include "worker/agent/node/memory.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fmt/format.h>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include "common/os/permissions.hpp"
#include "wire/memory_slot.hpp"
#include "worker/agent/aside.hpp"

namespace stoker::agent {
namespace {

constexpr unsigned kNoExecSeal = 0x8;  // MFD_NOEXEC_SEAL, which older kernels do not know
constexpr unsigned kMostThreads = 8;

Result<os::Fd> make_slot() {
  const char* name = "stoker-snapshot";
  os::Fd slot(::memfd_create(name, MFD_CLOEXEC | kNoExecSeal));
  if (!slot && errno == EINVAL) slot.reset(::memfd_create(name, MFD_CLOEXEC));
  const std::string what = "cannot make memory for snapshots";
  if (!slot) return fail(errno_error(errno, what, name));
  STOKER_TRY_STATUS(os::set_mode(slot.get(), 0600, what, name));
  return slot;
}

}  // namespace

Result<std::string> NodeMemory::slots_of(std::uint32_t local) {
  const std::size_t first = std::size_t{local} * wire::kSlotsOfRank;
  while (slots_.size() < first + wire::kSlotsOfRank) {
    STOKER_TRY(slot, make_slot());
    slots_.push_back(std::make_shared<const os::Fd>(std::move(slot)));
  }
  std::string paths;
  for (std::size_t i = first; i < first + wire::kSlotsOfRank; ++i)
    paths +=
        fmt::format("{}/proc/{}/fd/{}", paths.empty() ? "" : ":", ::getpid(), slots_[i]->get());
  return paths;
}

std::uint32_t NodeMemory::complete() const {
  const auto whole = [](const auto& slot) {
    const auto head = wire::read_slot(*slot);
    return head && head->state == wire::SlotState::Complete;
  };
  return static_cast<std::uint32_t>(std::count_if(slots_.begin(), slots_.end(), whole));
}

wire::SnapshotsHeld NodeMemory::look(const Slots& slots, Generation generation) {
  wire::SnapshotsHeld answer;
  std::mutex mutex;
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < slots.size(); i = next++) {
      const auto head = wire::read_slot(*slots[i]);
      if (!head || head->state != wire::SlotState::Complete || head->held.generation != generation)
        continue;
      const Status good = wire::verify_slot(*slots[i], *head);
      const std::lock_guard lock(mutex);
      if (good)
        answer.held.push_back(head->held);
      else
        answer.damaged.push_back(good.error().message());
    }
  };
  {
    std::vector<Thread> others;
    const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads);
    for (unsigned i = 1; i < cores && i < slots.size(); ++i) others.push_back(try_thread(work));
    work();
  }
  return answer;
}

}  // namespace stoker::agent
