// NcclComm: Comm over NCCL on one CUDA device, with one NcclGroup for each axis and one for each
// pair of ranks that sends. Buffers may be the device's memory or the CPU's; the latter travels
// through rooms on the device. NCCL only moves bytes: sums are the device's additions in rank
// order, so their bits are those of the other Comms, for the traffic of a ring. Each call but send
// returns when its data is there. After a failed call all groups are aborted, and the error names
// the ranks that do not answer the roll call in the store.
#pragma once

#include <memory>

#include "worker/train/comm/nccl_pairs.hpp"

namespace stoker::train {

// The device outlives the Comm.
Result<std::unique_ptr<Comm>> connect_nccl(const NcclOptions& options, NcclPorts ports,
                                           CudaDevice& device, Store store);

}  // namespace stoker::train
