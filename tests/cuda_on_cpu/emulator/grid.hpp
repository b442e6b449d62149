// A grid of CUDA threads on the CPU: blocks run one after the other in random order, the threads of
// a block are fibers that run in random order between their barriers. So a kernel that lacks a
// barrier reads what another thread has not written yet, and, compiled with the address sanitizer,
// a kernel that leaves its memory is stopped at the very line. What it cannot show: timing, memory
// ordering between blocks, and what the hardware alone refuses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>

namespace cuda_on_cpu {

// What the hardware would hang on or leave undefined: threads that wait at different barriers, a
// barrier that some threads never reach, a launch beyond the limits. Thrown by launch().
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  [[nodiscard]] constexpr std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

// Where a kernel waits.
struct Where {
  const char* file = "";
  unsigned line = 0;
};

// Of the fiber that runs now.
struct Place {
  Dim3 thread, block, threads, blocks;
};
extern Place place;

void set_seed(std::uint64_t seed);  // of all later launches
// Runs `body` once for each thread. At most 1024 threads a block, a multiple of 32; at most
// 227 KiB of dynamic shared memory.
void launch(Dim3 blocks, Dim3 threads, std::size_t shared_bytes, const std::function<void()>& body);

// Called inside a kernel.
void barrier(const Where& where);  // of the block
// The warp's values: all 32 lanes give one, then each sees all of them, until the exchange after
// the next one begins.
using Words = std::array<std::uint64_t, 3>;
const Words* warp_exchange(const Words& mine, const Where& where);
unsigned lane();
void maybe_switch();  // lets another thread run, or not

// A copy that lands at once or in land_copies(), by chance. A fault where a thread never waits.
void copy_later(std::function<void()> copy);
void land_copies();

// Shared memory of the block: one allocation for each key, of exactly this size, full of 0xff at
// the beginning of each block. At most 48 KiB together.
void* shared_array(const void* key, std::size_t bytes);
void* dynamic_shared();

}  // namespace cuda_on_cpu
