// STOKER_BOTH: a function for the CPU and the GPU.
#pragma once

#if defined(__CUDACC__)
#define STOKER_BOTH __host__ __device__
#else
#define STOKER_BOTH
#endif
