// One thread sixteen elements; the order of the additions is the caller's, so the bits are the
// CPU's.
#include "kernels/elementwise.hpp"
#include "kernels/grid.hpp"

namespace stoker::kernels {
namespace {

constexpr Index kEach = 16;

template <class T>
__global__ void add_kernel(T* total, const T* next, Index count) {
  for (Index i = first_element(); i < count; i += all_threads()) total[i] = total[i] + next[i];
}

template <class T>
__global__ void max_kernel(T* total, const T* next, Index count) {
  for (Index i = first_element(); i < count; i += all_threads())
    total[i] = total[i] < next[i] ? next[i] : total[i];  // as std::max
}

__global__ void round_kernel(const float* from, Bf16* to, Index count) {
  for (Index i = first_element(); i < count; i += all_threads()) to[i] = to_bf16(from[i]);
}

Grid grid_for(std::size_t count) {
  return Grid{blocks_for(static_cast<Index>(count), kBlockThreads * kEach)};
}

}  // namespace

GpuError add_into(float* total, const float* next, std::size_t count, Stream stream) {
  if (count == 0) return 0;
  return launch(grid_for(count), stream, add_kernel<float>, total, next, static_cast<Index>(count));
}
GpuError add_into(double* total, const double* next, std::size_t count, Stream stream) {
  if (count == 0) return 0;
  return launch(grid_for(count), stream, add_kernel<double>, total, next,
                static_cast<Index>(count));
}
GpuError max_into(float* total, const float* next, std::size_t count, Stream stream) {
  if (count == 0) return 0;
  return launch(grid_for(count), stream, max_kernel<float>, total, next, static_cast<Index>(count));
}
GpuError max_into(double* total, const double* next, std::size_t count, Stream stream) {
  if (count == 0) return 0;
  return launch(grid_for(count), stream, max_kernel<double>, total, next,
                static_cast<Index>(count));
}
GpuError round_to_bf16(const float* from, Bf16* to, std::size_t count, Stream stream) {
  if (count == 0) return 0;
  return launch(grid_for(count), stream, round_kernel, from, to, static_cast<Index>(count));
}

}  // namespace stoker::kernels
