// Residual + LayerNorm on the GPU: sum = residual + value, normed = (sum - mean) * rstd * weight +
// bias, a row at a time; mean and variance in f32, two passes. All pointers are of the device,
// except the reference's.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/bf16.hpp"
#include "kernels/column_workspace.hpp"
#include "kernels/stream.hpp"

namespace stoker::kernels {

inline constexpr float kLayerNormEps = 1e-5f;

// Tensors are [rows][width]; weight and bias [width]; mean and rstd [rows].
template <class T>
struct LayerNormForward {
  const T* residual = nullptr;
  const T* value = nullptr;  // null: sum = residual, and `sum` is not written
  const T* weight = nullptr;
  const T* bias = nullptr;
  T* sum = nullptr;
  T* normed = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
  std::size_t rows = 0, width = 0;
};
GpuError layer_norm(const LayerNormForward<float>& norm, Stream stream);
GpuError layer_norm(const LayerNormForward<Bf16>& norm, Stream stream);

template <class T>
struct LayerNormBackward {
  const T* upstream = nullptr;  // of `normed`
  const T* beside = nullptr;    // of `sum` by its other uses, added to `gradient`; may be null
  const T* sum = nullptr;
  const T* weight = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  T* gradient = nullptr;             // of residual and of value alike
  float* weight_gradient = nullptr;  // added to
  float* bias_gradient = nullptr;    // added to
  float* workspace = nullptr;        // 2 * column_workspace(width) values
  std::size_t rows = 0, width = 0;
};
GpuError layer_norm_backward(const LayerNormBackward<float>& norm, Stream stream);
GpuError layer_norm_backward(const LayerNormBackward<Bf16>& norm, Stream stream);

// In double, straight from the definition. Gradients of weight and bias are not added to.
struct LayerNormReference {
  std::vector<double> sum, normed, mean, rstd, gradient, weight_gradient, bias_gradient;
};
LayerNormReference layer_norm_reference(const std::vector<double>& sum,
                                        const std::vector<double>& weight,
                                        const std::vector<double>& bias,
                                        const std::vector<double>& upstream);

}  // namespace stoker::kernels
