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

__global__ void round_kernel(Bf16* to, const float* from, Index count) {
  for (Index i = first_element(); i < count; i += all_threads()) to[i] = to_bf16(from[i]);
}

template <class To, class From>
GpuError run(void (*kernel)(To*, const From*, Index), To* to, const From* from, std::size_t count,
             Stream stream) {
  if (count == 0) return 0;
  const auto elements = static_cast<Index>(count);
  const Grid grid{blocks_for(elements, kBlockThreads * kEach)};
  return launch(grid, stream, kernel, to, from, elements);
}

}  // namespace

GpuError add_into(float* total, const float* next, std::size_t count, Stream stream) {
  return run(add_kernel<float>, total, next, count, stream);
}
GpuError add_into(double* total, const double* next, std::size_t count, Stream stream) {
  return run(add_kernel<double>, total, next, count, stream);
}
GpuError max_into(float* total, const float* next, std::size_t count, Stream stream) {
  return run(max_kernel<float>, total, next, count, stream);
}
GpuError max_into(double* total, const double* next, std::size_t count, Stream stream) {
  return run(max_kernel<double>, total, next, count, stream);
}
GpuError round_to_bf16(const float* from, Bf16* to, std::size_t count, Stream stream) {
  return run(round_kernel, to, from, count, stream);
}

}  // namespace stoker::kernels
