// Bias + GELU on the GPU, in the tanh form of GPT-2: out = gelu(x + bias). All pointers are of the
// device, except the reference's. Tensors are [rows][width], bias [width].
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/bf16.hpp"
#include "kernels/column_workspace.hpp"
#include "kernels/stream.hpp"

namespace stoker::kernels {

GpuError bias_gelu(const float* x, const float* bias, std::size_t rows, std::size_t width,
                   float* out, Stream stream);
GpuError bias_gelu(const Bf16* x, const Bf16* bias, std::size_t rows, std::size_t width, Bf16* out,
                   Stream stream);

template <class T>
struct BiasGeluBackward {
  const T* upstream = nullptr;
  const T* x = nullptr;
  const T* bias = nullptr;
  T* gradient = nullptr;           // of x; may be `upstream`
  float* bias_gradient = nullptr;  // added to: the sum of `gradient` as it is stored
  float* workspace = nullptr;      // column_workspace(width) values
  std::size_t rows = 0, width = 0;
};
GpuError bias_gelu_backward(const BiasGeluBackward<float>& gelu, Stream stream);
GpuError bias_gelu_backward(const BiasGeluBackward<Bf16>& gelu, Stream stream);

// In double, straight from the definition.
double gelu_reference(double x);
double gelu_slope_reference(double x);

}  // namespace stoker::kernels
