// An NCCL that moves bytes, between threads of one process that each play a rank, on the streams of
// the emulated CUDA runtime. As NCCL's own: a communicator is there when all its ranks have asked
// for it, operations of one stream wait for each other, and a send is done when it was received.
#pragma once

#include "worker/train/nccl/nccl_table.hpp"

namespace stoker::train::testing {

NcclTable moving_nccl();
// From now on looks at communicators answer this ncclResult_t; 0 as usual.
void moving_nccl_fails(int result);
int moving_nccl_aborts();

}  // namespace stoker::train::testing
