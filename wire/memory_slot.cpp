#include "wire/memory_slot.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"

namespace stoker::wire {
namespace {

constexpr std::string_view kMagic = "STOKERMS";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kDigestedFrom = 16, kDigestedTo = 56;
constexpr std::size_t kPiece = 1u << 20;

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// False: it is shorter, or cannot be read.
bool read_at(const os::Fd& fd, std::uint64_t at, char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::pread(fd.get(), to, size, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    at += static_cast<std::uint64_t>(n);
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

std::array<char, kSlotNumbers> encode_slot(const SlotHead& head) {
  std::array<char, kSlotNumbers> bytes{};
  const auto put = [&](std::size_t at, auto value) {
    std::memcpy(&bytes[at], &value, sizeof value);
  };
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  put(8, kVersion);
  put(kSlotState, head.state);
  put(16, head.held.generation.value);
  put(20, head.held.attempt.value);
  put(24, head.held.iteration.value);
  put(32, head.held.shard);
  put(36, head.held.shards);
  put(40, head.shard_bytes);
  put(48, head.manifest_bytes);
  put(56, head.digest);
  return bytes;
}

std::optional<SlotHead> decode_slot(std::string_view bytes, std::uint64_t size) {
  if (bytes.size() < kSlotNumbers || !bytes.starts_with(kMagic) || size < kSlotHeader ||
      number_at<std::uint32_t>(bytes, 8) != kVersion)
    return std::nullopt;
  const auto state = number_at<std::uint32_t>(bytes, kSlotState);
  if (state > static_cast<std::uint32_t>(SlotState::Complete)) return std::nullopt;
  SlotHead head;
  head.state = static_cast<SlotState>(state);
  head.held.generation = Generation(number_at<std::uint32_t>(bytes, 16));
  head.held.attempt = Attempt(number_at<std::uint32_t>(bytes, 20));
  head.held.iteration = Iteration(number_at<std::uint64_t>(bytes, 24));
  head.held.shard = number_at<std::uint32_t>(bytes, 32);
  head.held.shards = number_at<std::uint32_t>(bytes, 36);
  head.shard_bytes = number_at<std::uint64_t>(bytes, 40);
  head.manifest_bytes = number_at<std::uint64_t>(bytes, 48);
  head.digest = number_at<std::uint64_t>(bytes, 56);
  const std::uint64_t room = size - kSlotHeader;
  const bool fits = head.shard_bytes <= room && head.manifest_bytes <= room - head.shard_bytes &&
                    head.manifest_bytes <= kLargestSlotText;
  if (!fits || head.held.shard >= head.held.shards) return std::nullopt;
  return head;
}

std::string_view digested_numbers(const std::array<char, kSlotNumbers>& numbers) {
  return {numbers.data() + kDigestedFrom, kDigestedTo - kDigestedFrom};
}

std::optional<SlotHead> read_slot(const os::Fd& slot) {
  struct stat info {};
  std::array<char, kSlotNumbers> numbers{};
  if (::fstat(slot.get(), &info) != 0 || !read_at(slot, 0, numbers.data(), numbers.size()))
    return std::nullopt;
  return decode_slot({numbers.data(), numbers.size()}, static_cast<std::uint64_t>(info.st_size));
}

Status verify_slot(const os::Fd& slot, const SlotHead& head) {
  Xxh3Stream hash;
  const auto numbers = encode_slot(head);
  const std::string_view first = digested_numbers(numbers);
  hash.update(first.data(), first.size());
  std::string piece(kPiece, '\0');
  const std::string object =
      fmt::format("shard {} of iteration {} in memory", head.held.shard, head.held.iteration.value);
  for (std::uint64_t at = 0; at < head.bytes();) {
    const std::size_t n = std::min<std::uint64_t>(kPiece, head.bytes() - at);
    if (!read_at(slot, kSlotHeader + at, piece.data(), n)) return fail("ends too early", object);
    hash.update(piece.data(), n);
    at += n;
  }
  if (hash.digest() != head.digest)
    return fail(
        fmt::format("its digest is {}, {} was written", hex64(hash.digest()), hex64(head.digest)),
        object);
  return ok();
}

}  // namespace stoker::wire
