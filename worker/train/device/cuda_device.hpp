// CudaDevice: one GPU, by the CUDA runtime and kernels/*.cu. What is computed goes to the default
// stream, where LibTorch's operators go too; copies beside it have a stream of their own, and a
// fence keeps later writes behind them. Compiled where CUDA is (STOKER_CUDA) and, against a
// stand-in for cuda_runtime.h, by the tests.
#pragma once

#include <memory>

#include "worker/train/device/device.hpp"
#include "worker/train/device/gpu_check.hpp"

namespace stoker::train {

class CudaDevice : public Device {
 public:
  // The stream of what is computed (cudaStream_t), for NCCL.
  [[nodiscard]] virtual void* stream() const = 0;
  // Another one, which runs beside it; it lives as long as the device. Null: status() says why.
  [[nodiscard]] virtual void* new_stream() = 0;
  // What is queued on `later` from now on waits for what is queued on `first`.
  virtual void order(void* first, void* later) = 0;
  // 0: the stream has done all; 600: not yet; else CUDA's number of an error.
  [[nodiscard]] virtual int query(void* stream) const = 0;
  // Whether `memory` is this device's.
  [[nodiscard]] virtual bool holds(const void* memory) const = 0;
  // Bytes of the device that are free now.
  [[nodiscard]] virtual std::size_t room() const = 0;
  // Queued: within this device, or from or to the CPU.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
};

// What the CUDA runtime says about this node, before anything is used of it.
GpuFacts gpu_facts();
// The node's device `ordinal` (choose_gpu), in this process. Errors: it is taken by another.
Result<std::unique_ptr<CudaDevice>> open_cuda(int ordinal);

}  // namespace stoker::train
