// AdamW (Loshchilov and Hutter) on flat ranges: one pass reads gradient, master and both moments
// and writes master, moments and, where the model computes in another type, the parameters. A range
// is any part of the flat buffer, so a shard that cuts through tensors is as good as a whole
// tensor. To add a kernel: a header and a source of its own in this folder, with plain pointers,
// and a test in tests/kernels against a reference in double. For the GPU: a launcher in the header,
// NAME.cu with kernel and launcher, and a test in tests/cuda_on_cpu.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bf16.hpp"
#include "kernels/stream.hpp"

namespace stoker::kernels {

struct AdamwStep {
  double learning_rate = 0;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0;    // decoupled; 0 for biases and norms
  double gradient_scale = 1;  // of clipping
  std::uint64_t step = 1;     // from 1: this step's number, for the bias correction
};

template <class T>
struct AdamwRange {
  const T* gradient = nullptr;
  T* master = nullptr;
  T* moment1 = nullptr;
  T* moment2 = nullptr;
  Bf16* parameter = nullptr;  // written with the rounded master; null: the model uses the master
  std::size_t count = 0;
};

void adamw(const AdamwStep& step, const AdamwRange<float>& range);
void adamw(const AdamwStep& step, const AdamwRange<double>& range);

// Clipping by a norm that is still on the device: where `squares` is given, the gradients are
// scaled by clip_scale(sqrt(*squares), clip) and AdamwStep::gradient_scale is not used.
struct DeviceClip {
  const double* squares = nullptr;
  double clip = 0;
};

// The elements of a range that do not decay: pairs of begin and end, ascending; of the device.
struct AdamwExempt {
  const std::uint64_t* bounds = nullptr;
  std::size_t count = 0;  // of bounds: twice the pairs
};

// On the GPU, bitwise as above (compile with -fmad=false).
GpuError adamw(const AdamwStep& step, const AdamwRange<float>& range, const AdamwExempt& exempt,
               const DeviceClip& clip, Stream stream);

}  // namespace stoker::kernels
