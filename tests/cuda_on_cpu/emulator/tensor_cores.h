// What kernels/tiles.hpp has where CUDA compiles it, for the CPU: asynchronous copies into shared
// memory, ldmatrix, mma.m16n8k16. Which lane has which element is written down here from the tables
// of the PTX ISA, and for one element at a time, so that a kernel's own idea of it is tested.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "tests/cuda_on_cpu/emulator/grid.hpp"

namespace cuda_on_cpu {

inline void check_aligned(const void* at, std::size_t bytes, const char* what) {
  if (reinterpret_cast<std::uintptr_t>(at) % bytes != 0) throw Fault(what);
}

// By chance a copy lands at once or when this thread waits for it: a kernel that reads too early
// finds what was there before, and one that copies too early disturbs who still reads.
inline void copy_beside(void* to, const void* from, std::size_t bytes, bool there) {
  check_aligned(to, bytes, "an asynchronous copy to an address that is not aligned");
  check_aligned(from, bytes, "an asynchronous copy from an address that is not aligned");
  copy_later([=] {
    if (there)
      std::memcpy(to, from, bytes);
    else
      std::memset(to, 0, bytes);
  });
}
inline void copies_done() {
  land_copies();
}

inline float widened(std::uint32_t word, unsigned half) {
  return std::bit_cast<float>(half == 0 ? word << 16 : word & 0xffff0000u);
}

// Thread 8 i + j says where row j of matrix i is, 16 bytes. "Each thread receives ... a 32-bit
// register: row lane / 4, the elements 2 (lane % 4) and the next one"; .trans: of the transpose.
inline void load_matrices(const void* row, bool transposed, std::uint32_t (&to)[4],
                          Where where = {__builtin_FILE(), __builtin_LINE()}) {
  check_aligned(row, 16, "ldmatrix from an address that is not aligned");
  const Words* rows = warp_exchange({reinterpret_cast<std::uint64_t>(row)}, where);
  const auto element = [&](unsigned matrix, unsigned r, unsigned column) {
    const auto* at = reinterpret_cast<const unsigned char*>(rows[8 * matrix + r][0]);
    std::uint16_t bits = 0;
    std::memcpy(&bits, at + 2 * column, sizeof bits);
    return std::uint32_t{bits};
  };
  const unsigned group = lane() / 4, pair = 2 * (lane() % 4);
  for (unsigned i = 0; i < 4; ++i)
    to[i] = transposed ? element(i, pair, group) | element(i, pair + 1, group) << 16
                       : element(i, group, pair) | element(i, group, pair + 1) << 16;
}

// The fragments of mma.m16n8k16 with .bf16: A has a0 ... a7 in four registers, row = groupID for
// a0, a1, a4, a5, else groupID + 8; column = 2 threadID_in_group + (i & 1), + 8 from a4 on.
inline float element_of_a(const Words* lanes, unsigned row, unsigned column) {
  const unsigned thread = row % 8 * 4 + column % 8 / 2;
  const unsigned i = column / 8 * 4 + row / 8 * 2 + column % 2;
  const std::uint64_t two = lanes[thread][i / 4];
  return widened(static_cast<std::uint32_t>(i / 2 % 2 == 0 ? two : two >> 32), i % 2);
}
// B has b0 ... b3 in two registers: row = 2 threadID_in_group + (i & 1), + 8 from b2 on; column =
// groupID.
inline float element_of_b(const Words* lanes, unsigned row, unsigned column) {
  const unsigned thread = column * 4 + row % 8 / 2, i = row / 8 * 2 + row % 2;
  const std::uint64_t two = lanes[thread][2];
  return widened(static_cast<std::uint32_t>(i / 2 == 0 ? two : two >> 32), i % 2);
}
// C has c0 ... c3: row = groupID for c0, c1, else groupID + 8; column = 2 threadID_in_group + (i &
// 1). Products are exact, sums of f32; their order is the card's own.
inline void multiply_add(float (&sum)[4], const std::uint32_t (&left)[4], std::uint32_t upper,
                         std::uint32_t lower, Where where = {__builtin_FILE(), __builtin_LINE()}) {
  const auto both = [](std::uint32_t low, std::uint32_t high) {
    return std::uint64_t{high} << 32 | low;
  };
  const Words* lanes =
      warp_exchange({both(left[0], left[1]), both(left[2], left[3]), both(upper, lower)}, where);
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane() / 4 + i / 2 * 8, column = lane() % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k)
      sum[i] += element_of_a(lanes, row, k) * element_of_b(lanes, k, column);
  }
}

}  // namespace cuda_on_cpu
