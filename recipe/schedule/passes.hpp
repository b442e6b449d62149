// Passes turn a schedule of compute operations into what an executor runs, one file a pass, in this
// order: insert_transfers, order_transfers, place_reductions; assign_slots reads the result.
// lower() runs them all.
#pragma once

#include <cstdint>
#include <vector>

#include "recipe/schedule/schedule.hpp"

namespace stoker::recipe {

// Adds to each operation whose neighbour stage is on another rank: the send right behind the
// operation that makes the value, the receive right before the one that needs it. Between chunks of
// one rank nothing is sent. RECV_F of stage s brings what SEND_F of stage s-1 sent; RECV_B what
// SEND_B of stage s+1 sent.
void insert_transfers(PipelineSchedule& schedule);

// Moves receives forward so that no blocking send ever faces another one: all ranks follow one
// global order of transfers (the order in which they become possible when F = I = W), so two ranks
// agree on the order of everything between them and a circle of waits cannot close. The order of
// the compute operations does not change. Needs a valid schedule.
Status order_transfers(PipelineSchedule& schedule);

// Adds REDUCE_GRAD of each stage behind its last backward (and its send), so that it overlaps with
// what is left. A tied embedding (used by the first and the last stage) is summed over both at the
// end of the step, REDUCE_TIED, and only then over the replicas: in the middle of the step the last
// stage would wait for backwards that need its own rank.
void place_reductions(PipelineSchedule& schedule, bool tied_embedding);

// One slot for each activation from its forward to the operation that frees it (B, or W), per rank,
// the lowest free one. `of[rank][i]` belongs to ranks[rank][i] (kNoSlot for what holds none);
// `count[rank]` is the number of buffers that the rank allocates.
inline constexpr std::uint32_t kNoSlot = 0xffffffff;
struct SlotPlan {
  std::vector<std::vector<std::uint32_t>> of;
  std::vector<std::uint32_t> count;
};
SlotPlan assign_slots(const PipelineSchedule& schedule);

// Blocking: a send ends when its receive is reached (two NCCL calls that face each other).
// Buffered: it ends at once.
enum class Channel { Blocking, Buffered };
// Walks a lowered schedule; the Error names the operations that wait for each other. Also refuses
// receives whose order differs from that of the sends between the same two ranks.
Status check_transfers(const PipelineSchedule& schedule, Channel channel);

// Validates, then runs all passes and checks their result with both channels.
Result<PipelineSchedule> lower(const PipelineSchedule& schedule, bool tied_embedding);

}  // namespace stoker::recipe
