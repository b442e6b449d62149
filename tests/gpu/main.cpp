// The tests of gpu_kernels and gpu_state, where a GPU is; elsewhere they are skipped, never passed.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdio>
#include <cuda_runtime.h>
#include <doctest/doctest.h>

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  int cards = 0;
  if (cudaGetDeviceCount(&cards) != cudaSuccess || cards == 0) {
    std::puts("SKIPPED: no GPU");
    return kSkipped;
  }
  return doctest::Context(argc, argv).run();
}
