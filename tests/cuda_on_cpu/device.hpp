// Device<T>: an array on the device for the tests of kernels, by the CUDA runtime or by the
// emulator's stand-in for it; the same tests run on both.
#pragma once

#include <cmath>
#include <cuda_runtime.h>
#include <doctest/doctest.h>
#include <vector>

#include "kernels/bf16.hpp"
#include "kernels/normal_init.hpp"
#if !defined(__CUDACC__)
#include "tests/cuda_on_cpu/emulator/grid.hpp"
#endif

namespace stoker::kernels {

template <class T>
class Device {
 public:
  // Filled with what no kernel may read.
  explicit Device(std::size_t count) : count_(count) {
    REQUIRE(cudaMalloc(&memory_, bytes()) == cudaSuccess);
    REQUIRE(cudaMemset(memory_, 0xff, bytes()) == cudaSuccess);
  }
  explicit Device(const std::vector<T>& values) : Device(values.size()) {
    REQUIRE(cudaMemcpy(memory_, values.data(), bytes(), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() { cudaFree(memory_); }

  [[nodiscard]] T* data() const { return static_cast<T*>(memory_); }
  [[nodiscard]] std::vector<T> host() const {
    std::vector<T> values(count_);
    REQUIRE(cudaMemcpy(values.data(), memory_, bytes(), cudaMemcpyDeviceToHost) == cudaSuccess);
    return values;
  }

 private:
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(T); }
  std::size_t count_;
  void* memory_ = nullptr;
};

inline std::vector<float> draw(std::uint64_t seed, std::size_t count, double deviation = 1.0) {
  std::vector<float> values(count);
  normal_init(seed, "draw", deviation, 0, count, values.data());
  return values;
}
inline std::vector<Bf16> narrow(const std::vector<float>& values) {
  std::vector<Bf16> out(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = to_bf16(values[i]);
  return out;
}
inline std::vector<double> wide(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}
inline std::vector<double> wide(const std::vector<Bf16>& values) {
  std::vector<double> out(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = static_cast<double>(to_float(values[i]));
  return out;
}
inline std::vector<std::uint16_t> bits(const std::vector<Bf16>& values) {
  std::vector<std::uint16_t> out(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i].bits;
  return out;
}

// Another random order of the emulated threads; a GPU has its own.
inline void set_order(std::uint64_t seed) {
#if !defined(__CUDACC__)
  cuda_on_cpu::set_seed(seed);
#else
  (void)seed;
#endif
}

// The largest difference, in units of what is allowed: 1e-5 of the larger of the value and the
// largest value for f32; for bf16 one unit in the last place of the value beside that.
inline double off(const std::vector<double>& got, const std::vector<double>& want, bool bf16,
                  double relative = 1e-5) {
  REQUIRE(got.size() == want.size());
  double largest = 0, worst = 0;
  for (const double x : want) largest = std::max(largest, std::fabs(x));
  for (std::size_t i = 0; i < want.size(); ++i) {
    double allowed = relative * std::max(largest, 1e-30);
    if (bf16 && want[i] != 0) allowed += std::exp2(std::floor(std::log2(std::fabs(want[i]))) - 7);
    const double ratio = std::fabs(got[i] - want[i]) / allowed;
    if (std::isnan(ratio)) return HUGE_VAL;
    worst = std::max(worst, ratio);
  }
  return worst;
}

}  // namespace stoker::kernels
