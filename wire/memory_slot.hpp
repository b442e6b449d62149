// A slot: memory of a node's agent that holds a rank's shard of one iteration (checkpoint.memory).
// The agent makes it, the rank gives it its size and fills it. Who reads it trusts nothing in it:
// the other side may have been killed at any moment, or be another program.
//
//   0 "STOKERMS"   8 u32 version = 1   12 u32 state   16 u32 generation   20 u32 attempt
//   24 u64 iteration   32 u32 shard   36 u32 shards   40 u64 bytes of the shard
//   48 u64 bytes of the manifest   56 u64 XXH3 of bytes 16 to 55, the shard and the manifest
//   4096 the shard, as it would lie in its file; behind it the manifest of this shard alone
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.hpp"
#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "wire/node_messages.hpp"

namespace stoker::wire {

inline constexpr std::size_t kSlotHeader = 4096;
inline constexpr std::size_t kSlotNumbers = 64;  // of them are used
inline constexpr std::size_t kSlotState = 12;    // where the state is
inline constexpr std::size_t kSlotsOfRank = 4;   // two of its own, two for its partner's copy
inline constexpr std::size_t kLargestSlotText = 1u << 26;  // of a manifest

// Of a rank's STOKER_MEMORY: its slots in this order.
enum class SlotUse : std::uint8_t { Own, OwnOther, Copy, CopyOther };

enum class SlotState : std::uint32_t { Empty, Writing, Complete };

struct SlotHead {
  SlotState state = SlotState::Empty;
  HeldSnapshot held;
  std::uint64_t shard_bytes = 0, manifest_bytes = 0, digest = 0;
  [[nodiscard]] std::uint64_t bytes() const { return shard_bytes + manifest_bytes; }
};

std::array<char, kSlotNumbers> encode_slot(const SlotHead& head);
// Empty: it is no slot of this version, or its numbers do not fit `size` bytes.
std::optional<SlotHead> decode_slot(std::string_view numbers, std::uint64_t size);
// What the digest begins with.
std::string_view digested_numbers(const std::array<char, kSlotNumbers>& numbers);

// Reads it without mapping: who fills it may cut it short meanwhile.
std::optional<SlotHead> read_slot(const os::Fd& slot);
// Error: what is there is not what was written.
Status verify_slot(const os::Fd& slot, const SlotHead& head);

}  // namespace stoker::wire
