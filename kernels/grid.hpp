// What the kernels share: which element is a thread's, sums over a warp and over a block, and how a
// kernel is launched. Indices are 64 bits from the first product on: a buffer has more than 2^31
// elements. Sums have a fixed order, so two runs give the same bits. To add a kernel of the GPU:
// NAME.cu with kernel, launcher and a reference in double, declared in NAME.hpp, and a test on the
// emulated grid, tests/cuda_on_cpu.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cuda_runtime.h>

#include "kernels/bf16.hpp"
#include "kernels/stream.hpp"

#if defined(__CUDACC__)
#define STOKER_SHARED(type, name, count) __shared__ type name[count]
#define STOKER_DYNAMIC_SHARED(type, name)                       \
  extern __shared__ __align__(16) unsigned char name##_bytes[]; \
  type* const name = reinterpret_cast<type*>(name##_bytes)
// Of a loop whose arrays are to stay in registers; and of one that is to stay a loop.
#define STOKER_UNROLL _Pragma("unroll")
#define STOKER_NO_UNROLL _Pragma("unroll 1")
#else
#define STOKER_UNROLL
#define STOKER_NO_UNROLL
#endif

namespace stoker::kernels {

using Index = std::int64_t;

inline constexpr unsigned kWarp = 32, kAllLanes = 0xffffffffu;
inline constexpr unsigned kBlockThreads = 256;
inline constexpr Index kMostBlocks = 1 << 16;           // then a thread takes several elements
inline constexpr std::size_t kPlainShared = 48 * 1024;  // more is asked for, kernel by kernel

constexpr Index flat_index(unsigned block, unsigned threads, unsigned thread) {
  return static_cast<Index>(block) * threads + thread;
}
constexpr Index row_start(Index row, Index width) {
  return row * width;
}
// As many blocks as elements need, one at least.
constexpr unsigned blocks_for(Index elements, Index each) {
  return static_cast<unsigned>(std::clamp<Index>((elements + each - 1) / each, 1, kMostBlocks));
}

// for (Index i = first_element(); i < count; i += all_threads())
__device__ inline Index first_element() {
  return flat_index(blockIdx.x, blockDim.x, threadIdx.x);
}
__device__ inline Index all_threads() {
  return flat_index(gridDim.x, blockDim.x, 0);
}
// for (Index row = first_row(); row < rows; row += all_rows()): a row a block.
__device__ inline Index first_row() {
  return blockIdx.x;
}
__device__ inline Index all_rows() {
  return gridDim.x;
}

__device__ inline float widen(float x) {
  return x;
}
__device__ inline float widen(Bf16 x) {
  return to_float(x);
}
__device__ inline void put(float* out, float value) {
  *out = value;
}
__device__ inline void put(Bf16* out, float value) {
#if defined(__CUDACC__)
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out->bits) : "f"(value));  // one instruction; the same bits
#else
  *out = to_bf16(value);
#endif
}

// Two of them in one word, the first one in its lower half.
__device__ inline std::uint32_t two_bf16(float low, float high) {
#if defined(__CUDACC__)
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#else
  return static_cast<std::uint32_t>(to_bf16(high).bits) << 16 | to_bf16(low).bits;
#endif
}

// To an address of four bytes' alignment.
__device__ inline void put_two(Bf16* out, float low, float high) {
#if defined(__CUDACC__)
  *reinterpret_cast<std::uint32_t*>(out) = two_bf16(low, high);
#else
  put(out, low), put(out + 1, high);
#endif
}

// exp(x) and 2^x to about 1e-7 (1 + |x|) of their value, and a / b to two units in the last place:
// a few instructions each, for what is rounded afterwards or compared with much larger values.
__device__ inline float fast_exp(float x) {
#if defined(__CUDACC__)
  return __expf(x);
#else
  return std::exp(x);
#endif
}
__device__ inline float fast_exp2(float x) {
#if defined(__CUDACC__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return std::exp2(x);
#endif
}
__device__ inline float fast_ratio(float a, float b) {
#if defined(__CUDACC__)
  return __fdividef(a, b);
#else
  return a / b;
#endif
}

template <class T>
__device__ T warp_sum(T value) {
  for (int with = 16; with > 0; with /= 2) value += __shfl_xor_sync(kAllLanes, value, with);
  return value;
}
__device__ inline float warp_max(float value) {
  for (int with = 16; with > 0; with /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, value, with);
    value = other > value ? other : value;
  }
  return value;
}

// The sum for every thread of the block; `scratch` has room for a value a warp, shared.
template <class T>
__device__ T block_sum(T value, T* scratch) {
  value = warp_sum(value);
  __syncthreads();  // who still reads the sum before this one
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();
  T total = scratch[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) total += scratch[warp];
  return total;
}
__device__ inline float block_max(float value, float* scratch) {
  value = warp_max(value);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();
  float most = scratch[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp)
    most = scratch[warp] > most ? scratch[warp] : most;
  return most;
}

struct Grid {
  dim3 blocks, threads{kBlockThreads};
  std::size_t shared_bytes = 0;
};

template <class... Wanted, class... Given>
GpuError launch(const Grid& grid, Stream stream, void (*kernel)(Wanted...), Given... arguments) {
  if (grid.shared_bytes > kPlainShared) {
    const cudaError_t e = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               static_cast<int>(grid.shared_bytes));
    if (e != cudaSuccess) return static_cast<GpuError>(e);
  }
  cudaLaunchConfig_t how{};
  how.gridDim = grid.blocks;
  how.blockDim = grid.threads;
  how.dynamicSmemBytes = grid.shared_bytes;
  how.stream = stream;
  return static_cast<GpuError>(cudaLaunchKernelEx(&how, kernel, static_cast<Wanted>(arguments)...));
}

}  // namespace stoker::kernels
