// The CUDA driver behind one table of function pointers, opened with dlopen: a node without it
// still runs, and no toolkit is needed. Types as in cuda.h of CUDA 11 to 13: a device is an int, a
// device pointer 64 bits, everything else an opaque pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/result.hpp"

namespace stoker::agent {

using CudaPointer = std::uint64_t;

struct CudaTable {  // each answers 0 = CUDA_SUCCESS
  int (*init)(unsigned flags) = nullptr;
  int (*version)(int*) = nullptr;
  int (*count)(int*) = nullptr;
  int (*device)(int*, int ordinal) = nullptr;
  int (*name)(char*, int length, int device) = nullptr;
  int (*pci)(char*, int length, int device) = nullptr;
  int (*attribute)(int*, int which, int device) = nullptr;
  int (*retain)(void** context, int device) = nullptr;
  int (*release)(int device) = nullptr;
  int (*use)(void* context) = nullptr;
  int (*memory)(std::size_t* free, std::size_t* total) = nullptr;
  int (*allocate)(CudaPointer*, std::size_t) = nullptr;
  int (*deallocate)(CudaPointer) = nullptr;
  int (*allocate_host)(void**, std::size_t, unsigned flags) = nullptr;
  int (*deallocate_host)(void*) = nullptr;
  int (*fill)(CudaPointer, unsigned word, std::size_t words) = nullptr;
  int (*to_device)(CudaPointer, const void*, std::size_t) = nullptr;
  int (*to_host)(void*, CudaPointer, std::size_t) = nullptr;
  int (*copy)(CudaPointer to, CudaPointer from, std::size_t) = nullptr;
  int (*can_reach)(int*, int device, int peer) = nullptr;
  int (*reach)(void* context, unsigned flags) = nullptr;
  int (*copy_peer)(CudaPointer to, void* to_context, CudaPointer from, void* from_context,
                   std::size_t) = nullptr;
  int (*load)(void** module, const void* image) = nullptr;
  int (*unload)(void* module) = nullptr;
  int (*function)(void**, void* module, const char* name) = nullptr;
  int (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared, void* stream, void** arguments,
                void** extra) = nullptr;
  int (*wait)() = nullptr;
  int (*error_text)(int, const char**) = nullptr;
};

inline constexpr int kCudaNoDevice = 100, kCudaOldDriver = 35, kCudaStub = 34;
inline constexpr int kCudaProcessors = 16, kCudaMajor = 75, kCudaMinor = 76;  // of attribute()

// Error: "libcuda.so.1 is not here: no NVIDIA driver", or which function it lacks.
Result<CudaTable> load_cuda(const char* library = "libcuda.so.1");

// "out of memory (2)".
std::string cuda_text(const CudaTable& cuda, int error);

}  // namespace stoker::agent
