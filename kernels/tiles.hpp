// What kernels on tensor cores are made of: copies into shared memory beside what is computed,
// matrices of 8 x 8 out of shared memory, and the product of 16 x 16 and 16 x 8 (PTX ISA, "Matrix
// Fragments for mma.m16n8k16"). All three are of a whole warp or of a thread, as the hardware has
// them; tests/cuda_on_cpu/emulator has them for the CPU.
#pragma once

#include "kernels/grid.hpp"

namespace stoker::kernels {

#if defined(__CUDACC__)
__device__ inline std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}
#endif

// 16 bytes into shared memory, or zeros if they are not `there`; both addresses are multiples of
// 16. What was copied is there after copies_done(), for other threads behind a barrier.
__device__ inline void copy_beside(Bf16* to, const Bf16* from, bool there) {
#if defined(__CUDACC__)
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
#else
  cuda_on_cpu::copy_beside(to, from, 16, there);
#endif
}
// The same for 4 bytes.
__device__ inline void copy_beside(float* to, const float* from, bool there) {
#if defined(__CUDACC__)
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(there ? 4 : 0)
               : "memory");
#else
  cuda_on_cpu::copy_beside(to, from, 4, there);
#endif
}
// This thread's.
__device__ inline void copies_done() {
#if defined(__CUDACC__)
  asm volatile("cp.async.wait_all;" ::: "memory");
#else
  cuda_on_cpu::copies_done();
#endif
}

// Four matrices of 8 x 8: lanes 8 i ... 8 i + 7 say where the rows of the i-th are. A lane gets the
// elements 2 (lane % 4) and the next one of row lane / 4 of each.
__device__ inline void load_matrices(const Bf16* row, std::uint32_t (&to)[4]) {
#if defined(__CUDACC__)
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
#else
  cuda_on_cpu::load_matrices(row, false, to);
#endif
}
// The same of the matrices' transposes: elements lane / 4 of rows 2 (lane % 4) and the next one.
__device__ inline void load_transposed(const Bf16* row, std::uint32_t (&to)[4]) {
#if defined(__CUDACC__)
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
#else
  cuda_on_cpu::load_matrices(row, true, to);
#endif
}

// sum [16 x 8] += left [16 x 16] x right [16 x 8]. A lane has of `left` the quarters of 8 x 8, in
// the order upper left, lower left, upper right, lower right, each as load_matrices gives it; of
// `right` the upper and the lower half as load_transposed gives it; of `sum` elements 2 (lane % 4)
// and the next one of rows lane / 4 and lane / 4 + 8.
__device__ inline void multiply_add(float (&sum)[4], const std::uint32_t (&left)[4],
                                    std::uint32_t upper, std::uint32_t lower) {
#if defined(__CUDACC__)
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(upper), "r"(lower));
#else
  cuda_on_cpu::multiply_add(sum, left, upper, lower);
#endif
}

}  // namespace stoker::kernels
