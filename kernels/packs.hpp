// Packs: 16 bytes of a row at a time, the widest load that a thread has. Kernels that move more
// than they compute read and write packs; where a row's beginning is not aligned to one, they fall
// back on single elements.
#pragma once

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
