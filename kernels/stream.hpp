// The words of the CUDA runtime that a launcher's declaration needs, so that no header of this
// folder needs CUDA. Launchers take device pointers, queue their kernels on `stream` and return at
// once; the sources (*.cu) are compiled where CUDA is, and by tests/cuda_on_cpu.
#pragma once

struct CUstream_st;

namespace stoker::kernels {

using Stream = CUstream_st*;

// 0, or CUDA's number of the error (cudaError_t) of the launch.
using GpuError = int;

}  // namespace stoker::kernels
