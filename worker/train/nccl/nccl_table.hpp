// NCCL behind one table of function pointers, opened with dlopen: one program starts on nodes with
// and without it and says what is missing, and tests put a fake library in its place. Structures
// and numbers as in nccl.h of 2.28. Needs no header of NCCL or CUDA.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

#include "common/result.hpp"

namespace stoker::train {

struct NcclId {  // ncclUniqueId
  char bytes[128] = {};
};

struct NcclConfig {  // ncclConfig_t, NCCL_CONFIG_INITIALIZER
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef, version = 22809;
  int blocking = 0;
  int cga_cluster_size = INT_MIN, min_ctas = INT_MIN, max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN, traffic_class = INT_MIN;
  const char* comm_name = nullptr;  // shown by ncclras
  int collnet_enable = INT_MIN, cta_policy = INT_MIN, shrink_share = INT_MIN, nvls_ctas = INT_MIN,
      channels_per_net_peer = INT_MIN, nvlink_centric_sched = INT_MIN;
};

// ncclResult_t; more numbers exist.
inline constexpr int kNcclSuccess = 0, kNcclInProgress = 7;
enum class NcclType { F32 = 7, F64 = 8, Bf16 = 9, U8 = 1 };  // ncclDataType_t
enum class NcclSum { Sum = 0, Max = 2 };                     // ncclRedOp_t

struct NcclTable {  // comm: ncclComm_t, stream: cudaStream_t
  int (*version)(int*) = nullptr;
  int (*unique_id)(NcclId*) = nullptr;
  int (*init)(void** comm, int ranks, NcclId, int rank, NcclConfig*) = nullptr;
  int (*split)(void* comm, int color, int key, void** out, NcclConfig*) = nullptr;
  int (*finalize)(void* comm) = nullptr;
  int (*destroy)(void* comm) = nullptr;
  int (*abort)(void* comm) = nullptr;
  int (*async_error)(void* comm, int*) = nullptr;
  const char* (*last_error)(void* comm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t, int, int, void* comm, void* stream) = nullptr;
  int (*reduce_scatter)(const void*, void*, std::size_t, int, int, void* comm,
                        void* stream) = nullptr;
  int (*all_gather)(const void*, void*, std::size_t, int, void* comm, void* stream) = nullptr;
  int (*broadcast)(const void*, void*, std::size_t, int, int root, void* comm,
                   void* stream) = nullptr;
  int (*send)(const void*, std::size_t, int, int peer, void* comm, void* stream) = nullptr;
  int (*receive)(void*, std::size_t, int, int peer, void* comm, void* stream) = nullptr;
  int (*register_buffer)(void* comm, void*, std::size_t, void** handle) = nullptr;
  int code = 0;  // what version() said, e.g. 22809
};

// Opens the library and checks its version (nccl_version_allowed). An Error names the library, and
// the function that it lacks.
Result<NcclTable> open_nccl(const std::string& library = "libnccl.so.2");

std::string nccl_version_text(int code);  // 22809 -> "2.28.9"
// At least 2.24, the first whose ranks answer questions (RAS). Where the ranks restart within their
// processes, not 2.28.3 to 2.28.8, which NVIDIA's resiliency extension advises against.
Status nccl_version_allowed(int code, bool restarts_in_place);

}  // namespace stoker::train
