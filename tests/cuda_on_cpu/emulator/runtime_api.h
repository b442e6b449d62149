// The CUDA runtime's functions that stoker calls, over runtime.hpp. Included by cuda_runtime.h.
#pragma once

#include "tests/cuda_on_cpu/emulator/runtime.hpp"

#define CUDART_VERSION 13000

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorDevicesUnavailable = 46,
  cudaErrorNoDevice = 100,
  cudaErrorECCUncorrectable = 214,
  cudaErrorNotReady = 600,
  cudaErrorStreamCaptureInvalidated = 901,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDefault = 4
};
enum cudaMemoryType { cudaMemoryTypeUnregistered = 0, cudaMemoryTypeDevice = 2 };
enum cudaDeviceAttr {
  cudaDevAttrComputeMode = 20,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
};
inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2;
struct cudaPointerAttributes {
  cudaMemoryType type;
};
using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
using cudaGraph_t = cuda_on_cpu::Kept*;
using cudaGraphExec_t = const cuda_on_cpu::Kept*;

namespace cuda_on_cpu {

inline Stream* of(cudaStream_t stream) {
  return reinterpret_cast<Stream*>(stream);
}
inline Event* of(cudaEvent_t event) {
  return reinterpret_cast<Event*>(event);
}
// What a call answers whose work could be queued.
inline cudaError_t queued() {
  return static_cast<cudaError_t>(card().error);
}

}  // namespace cuda_on_cpu

// A kernel has 48 KiB of dynamic shared memory unless it was given more.
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
inline cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int bytes) {
  if (cuda_on_cpu::card().error != 0) return cuda_on_cpu::queued();
  if (bytes > 227 * 1024) return cudaErrorInvalidValue;
  cuda_on_cpu::allow_shared(kernel, static_cast<std::size_t>(bytes));
  return cudaSuccess;
}

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};
template <class... Wanted, class... Given>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* how, void (*kernel)(Wanted...),
                               Given&&... arguments) {
  if (cuda_on_cpu::card().error != 0) return cuda_on_cpu::queued();
  if (how->dynamicSmemBytes > cuda_on_cpu::kPlainShared &&
      how->dynamicSmemBytes > cuda_on_cpu::allowed_shared(reinterpret_cast<const void*>(kernel)))
    return cudaErrorInvalidValue;
  const std::tuple<Wanted...> copies{static_cast<Wanted>(arguments)...};
  cuda_on_cpu::enqueue(cuda_on_cpu::of(how->stream), [how = *how, kernel, copies] {
    cuda_on_cpu::with_memory([&] {
      cuda_on_cpu::launch(how.gridDim, how.blockDim, how.dynamicSmemBytes,
                          [&] { std::apply(kernel, copies); });
    });
    return true;
  });
  return cudaSuccess;
}

inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorECCUncorrectable ? "uncorrectable ECC error encountered" : "emulated";
}
inline cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  return static_cast<cudaError_t>(cuda_on_cpu::allocate(out, bytes));
}
inline cudaError_t cudaFree(void* memory) {
  return static_cast<cudaError_t>(cuda_on_cpu::release(memory));
}
inline constexpr unsigned cudaHostRegisterDefault = 0;
inline cudaError_t cudaHostRegister(void*, std::size_t, unsigned) {
  return cudaSuccess;
}
inline cudaError_t cudaHostUnregister(void*) {
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes,
                                   cudaStream_t stream) {
  cuda_on_cpu::enqueue(cuda_on_cpu::of(stream), [=] {
    cuda_on_cpu::with_memory([&] { std::memset(memory, value, bytes); });
    return true;
  });
  return cuda_on_cpu::queued();
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream) {
  cuda_on_cpu::enqueue(cuda_on_cpu::of(stream), [=] {
    cuda_on_cpu::with_memory([&] { std::memcpy(to, from, bytes); });
    return true;
  });
  return cuda_on_cpu::queued();
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(cuda_on_cpu::new_stream());
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  (void)cuda_on_cpu::synchronize(cuda_on_cpu::of(stream));
  cuda_on_cpu::end_stream(cuda_on_cpu::of(stream));
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (cuda_on_cpu::card().error != 0) return cuda_on_cpu::queued();
  return static_cast<cudaError_t>(cuda_on_cpu::synchronize(cuda_on_cpu::of(stream)));
}
inline cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (cuda_on_cpu::card().error != 0) return cuda_on_cpu::queued();
  return static_cast<cudaError_t>(cuda_on_cpu::query(cuda_on_cpu::of(stream)));
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  cuda_on_cpu::begin_keeping(cuda_on_cpu::of(stream));
  return cuda_on_cpu::queued();
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = cuda_on_cpu::end_keeping(cuda_on_cpu::of(stream)).release();
  return *graph != nullptr ? cudaSuccess : cudaErrorStreamCaptureInvalidated;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph,
                                        unsigned long long) {
  *ready = new cuda_on_cpu::Kept(*graph);
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (cuda_on_cpu::card().error == 0)
    for (const cuda_on_cpu::Task& task : *graph)
      cuda_on_cpu::enqueue(cuda_on_cpu::of(stream), task);
  return cuda_on_cpu::queued();
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(cuda_on_cpu::new_event());
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  cuda_on_cpu::end_event(cuda_on_cpu::of(event));
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  cuda_on_cpu::record(cuda_on_cpu::of(event), cuda_on_cpu::of(stream));
  return cuda_on_cpu::queued();
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  cuda_on_cpu::wait(cuda_on_cpu::of(stream), cuda_on_cpu::of(event));
  return cuda_on_cpu::queued();
}
inline cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  (void)cudaMemsetAsync(memory, value, bytes, nullptr);
  return cudaStreamSynchronize(nullptr);
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  (void)cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return cudaStreamSynchronize(nullptr);
}
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* about, const void* memory) {
  about->type = cuda_on_cpu::is_device(memory) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = cuda_on_cpu::card().memory;
  *free = *total - cuda_on_cpu::allocated();
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int) {
  return static_cast<cudaError_t>(cuda_on_cpu::card().device_error);
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = cuda_on_cpu::card().driver;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = cuda_on_cpu::card().count;
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
inline cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int) {
  std::strncpy(text, cuda_on_cpu::card().bus.c_str(), static_cast<std::size_t>(bytes) - 1);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  const auto& card = cuda_on_cpu::card();
  *value = which == cudaDevAttrComputeMode              ? card.compute_mode
           : which == cudaDevAttrComputeCapabilityMajor ? card.major
                                                        : card.minor;
  return cudaSuccess;
}
