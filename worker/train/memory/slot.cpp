#include "worker/train/memory/slot.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "common/hash.hpp"

namespace stoker::train {
namespace {
constexpr std::uint64_t kPage = 4096;
}  // namespace

Result<Slot> Slot::open(const std::string& path) {
  // A link of /proc to the agent's memory: it is followed on purpose.
  os::Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return fail(errno_error(errno, "cannot open the agent's memory", path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return fail(errno_error(errno, "cannot stat", path));
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 0077) != 0)
    return fail("is no private memory of our own", path);
  Slot slot(std::move(fd), path);
  STOKER_TRY_STATUS(slot.map(static_cast<std::uint64_t>(info.st_size)));
  return slot;
}

Slot::Slot(Slot&& other) noexcept
    : fd_(std::move(other.fd_)),
      path_(std::move(other.path_)),
      memory_(std::exchange(other.memory_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Slot::~Slot() {
  if (memory_ != nullptr) ::munmap(memory_, size_);
}

Status Slot::map(std::uint64_t size) {
  if (memory_ != nullptr) ::munmap(memory_, size_);
  memory_ = nullptr;
  size_ = 0;
  if (size < wire::kSlotHeader) return ok();
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (memory == MAP_FAILED) return fail(errno_error(errno, "cannot map", path_));
  memory_ = static_cast<char*>(memory);
  size_ = size;
  return ok();
}

Status Slot::reserve(std::uint64_t content) {
  if (room() >= content) return ok();
  const std::uint64_t size = (wire::kSlotHeader + content + kPage - 1) / kPage * kPage;
  const int error = ::posix_fallocate(fd_.get(), 0, static_cast<off_t>(size));
  if (error != 0) return fail(errno_error(error, "cannot get memory for snapshots", path_));
  return map(size);
}

std::uint64_t Slot::room() const {
  return size_ < wire::kSlotHeader ? 0 : size_ - wire::kSlotHeader;
}

std::optional<wire::SlotHead> Slot::whole() const {
  if (memory_ == nullptr) return std::nullopt;
  auto head = wire::decode_slot({memory_, wire::kSlotNumbers}, size_);
  if (!head || head->state != wire::SlotState::Complete) return std::nullopt;
  return head;
}

void Slot::set_state(wire::SlotState state) {
  auto& place = *reinterpret_cast<std::uint32_t*>(memory_ + wire::kSlotState);
  std::atomic_ref(place).store(static_cast<std::uint32_t>(state), std::memory_order_seq_cst);
}

void Slot::begin() {
  set_state(wire::SlotState::Writing);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Slot::complete(const wire::SlotHead& head) {
  wire::SlotHead written = head;
  written.state = wire::SlotState::Writing;
  const auto numbers = wire::encode_slot(written);
  std::memcpy(memory_, numbers.data(), numbers.size());
  std::atomic_thread_fence(std::memory_order_seq_cst);
  set_state(wire::SlotState::Complete);
}

std::uint64_t content_digest(const wire::SlotHead& head, const char* content) {
  const auto numbers = wire::encode_slot(head);
  const std::string_view first = wire::digested_numbers(numbers);
  Xxh3Stream hash;
  hash.update(first.data(), first.size());
  hash.update(content, head.bytes());
  return hash.digest();
}

}  // namespace stoker::train
