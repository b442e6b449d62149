// Stands in for CUDA's header of this name where kernels are compiled for the CPU: the words that
// kernels/*.cu use, with the meaning of the CUDA programming guide. Device memory is the heap.
#pragma once

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "tests/cuda_on_cpu/emulator/grid.hpp"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)

using dim3 = cuda_on_cpu::Dim3;
inline const dim3& threadIdx = cuda_on_cpu::place.thread;
inline const dim3& blockIdx = cuda_on_cpu::place.block;
inline const dim3& blockDim = cuda_on_cpu::place.threads;
inline const dim3& gridDim = cuda_on_cpu::place.blocks;

// What kernels/grid.hpp makes of __shared__ where CUDA compiles it.
#define STOKER_SHARED(type, name, count) \
  static char name##_key;                \
  type* const name =                     \
      static_cast<type*>(::cuda_on_cpu::shared_array(&name##_key, sizeof(type) * (count)))
#define STOKER_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::cuda_on_cpu::dynamic_shared())

inline void __syncthreads(cuda_on_cpu::Where where = {__builtin_FILE(), __builtin_LINE()}) {
  cuda_on_cpu::barrier(where);
}

namespace cuda_on_cpu {

template <class T>
T value_of(std::uint64_t bits) {
  T out;
  std::memcpy(&out, &bits, sizeof(T));
  return out;
}
template <class T>
std::uint64_t bits_of(T value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
inline void need_all(unsigned mask) {
  if (mask != 0xffffffffu) throw Fault("a warp's operation with a mask of some lanes");
}
template <class T>
T shuffle(unsigned mask, T value, unsigned from, const Where& where) {
  need_all(mask);
  const Words* all = warp_exchange({bits_of(value)}, where);
  return from < 32 ? value_of<T>(all[from][0]) : value;
}
template <class T, class Use>
T atomic(T* at, Use use) {
  maybe_switch();
  const T old = *at;
  *at = use(old);
  maybe_switch();
  return old;
}

}  // namespace cuda_on_cpu

template <class T>
T __shfl_sync(unsigned mask, T value, int from,
              cuda_on_cpu::Where where = {__builtin_FILE(), __builtin_LINE()}) {
  return cuda_on_cpu::shuffle(mask, value, static_cast<unsigned>(from) % 32, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with,
                  cuda_on_cpu::Where where = {__builtin_FILE(), __builtin_LINE()}) {
  return cuda_on_cpu::shuffle(mask, value, cuda_on_cpu::lane() ^ static_cast<unsigned>(with),
                              where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by,
                   cuda_on_cpu::Where where = {__builtin_FILE(), __builtin_LINE()}) {
  return cuda_on_cpu::shuffle(mask, value, cuda_on_cpu::lane() + by, where);
}
inline unsigned __ballot_sync(unsigned mask, int vote,
                              cuda_on_cpu::Where where = {__builtin_FILE(), __builtin_LINE()}) {
  cuda_on_cpu::need_all(mask);
  const cuda_on_cpu::Words* all = cuda_on_cpu::warp_exchange({vote != 0}, where);
  unsigned votes = 0;
  for (unsigned i = 0; i < 32; ++i) votes |= static_cast<unsigned>(all[i][0]) << i;
  return votes;
}
inline int __any_sync(unsigned mask, int vote,
                      cuda_on_cpu::Where where = {__builtin_FILE(), __builtin_LINE()}) {
  return __ballot_sync(mask, vote, where) != 0;
}
inline int __all_sync(unsigned mask, int vote,
                      cuda_on_cpu::Where where = {__builtin_FILE(), __builtin_LINE()}) {
  return __ballot_sync(mask, vote, where) == 0xffffffffu;
}
inline void __syncwarp(unsigned mask = 0xffffffffu,
                       cuda_on_cpu::Where where = {__builtin_FILE(), __builtin_LINE()}) {
  __ballot_sync(mask, 0, where);
}

template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return cuda_on_cpu::atomic(at, [&](T old) { return static_cast<T>(old + value); });
}
template <class T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return cuda_on_cpu::atomic(at, [&](T old) { return old < value ? value : old; });
}
template <class T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return cuda_on_cpu::atomic(at, [&](T old) { return old == expected ? value : old; });
}

#include "tests/cuda_on_cpu/emulator/runtime_api.h"
#include "tests/cuda_on_cpu/emulator/tensor_cores.h"
