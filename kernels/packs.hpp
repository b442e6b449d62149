// Packs: 16 bytes of a row at a time, the widest load that a thread has. Kernels that move more
// than they compute read and write packs; where a row's beginning is not aligned to one, they fall
// back on single elements.
#pragma once

#include <bit>

#include "kernels/grid.hpp"

namespace stoker::kernels {

template <class T>
struct alignas(16) Pack {
  static constexpr unsigned kCount = 16 / sizeof(T);
  T values[kCount];
};

template <class T>
__device__ Pack<T> load(const T* from) {
  return *reinterpret_cast<const Pack<T>*>(from);
}
template <class T>
__device__ void store(T* to, const Pack<T>& pack) {
  *reinterpret_cast<Pack<T>*>(to) = pack;
}

// A pack that waits in registers: two elements of bf16 in each, where a Pack's take one each.
template <class T>
struct alignas(16) Held {
  std::uint32_t words[4];
  __device__ float operator[](unsigned i) const {
    if constexpr (sizeof(T) == sizeof(float)) return std::bit_cast<float>(words[i]);
    const std::uint32_t word = words[i / 2];
    return std::bit_cast<float>(i % 2 == 0 ? word << 16 : word & 0xffff0000u);
  }
};
template <class T>
__device__ Held<T> hold(const T* from) {
#if defined(__CUDACC__)
  return *reinterpret_cast<const Held<T>*>(from);
#else
  return std::bit_cast<Held<T>>(load(from));
#endif
}

template <class T>
__device__ float largest(const Held<T>& held) {
#if defined(__CUDACC__)
  if constexpr (sizeof(T) != sizeof(float)) {
    std::uint32_t left, right, two;
    asm("max.bf16x2 %0, %1, %2;" : "=r"(left) : "r"(held.words[0]), "r"(held.words[1]));
    asm("max.bf16x2 %0, %1, %2;" : "=r"(right) : "r"(held.words[2]), "r"(held.words[3]));
    asm("max.bf16x2 %0, %1, %2;" : "=r"(two) : "r"(left), "r"(right));
    return std::fmax(std::bit_cast<float>(two << 16), std::bit_cast<float>(two & 0xffff0000u));
  }
#endif
  float most = held[0];
  for (unsigned i = 1; i < Pack<T>::kCount; ++i) most = std::fmax(most, held[i]);
  return most;
}

// What f(i) gives, rounded; stored in one piece.
template <class T, class F>
__device__ Held<T> rounded(F f) {
  Held<T> held;
  for (unsigned i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == sizeof(float)) {
      held.words[i] = std::bit_cast<std::uint32_t>(f(i));
    } else {
      const float low = f(2 * i), high = f(2 * i + 1);
      held.words[i] = two_bf16(low, high);
    }
  }
  return held;
}
template <class T>
__device__ void store(T* to, const Held<T>& held) {
#if defined(__CUDACC__)
  *reinterpret_cast<Held<T>*>(to) = held;
#else
  store(to, std::bit_cast<Pack<T>>(held));
#endif
}

// Whether rows of `width` elements at these addresses are whole packs. Null counts as aligned.
template <class T, class... Pointers>
bool in_packs(std::size_t width, const T* first, const Pointers*... others) {
  const auto whole = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
  return width % Pack<T>::kCount == 0 && whole(first) && (whole(others) && ...);
}

// f(i, pack) for each of this lane's packs of a row that a warp shares; i counts them, below kMost.
template <unsigned kMost, class F>
__device__ void each_pack(Index packs, F f) {
  for (unsigned i = 0; i < kMost; ++i) {
    const Index pack = threadIdx.x % kWarp + i * kWarp;
    if (pack < packs) f(i, pack);
  }
}

}  // namespace stoker::kernels
