// The generators, and the one door to them. Each returns compute operations only; its file says
// the rule that it follows.
#pragma once

#include "recipe/schedule/schedule.hpp"

namespace stoker::recipe {

struct ScheduleShape {
  ScheduleKind kind = ScheduleKind::OneFOneB;
  std::uint32_t ranks = 1;   // pipeline-parallel size
  std::uint32_t chunks = 1;  // stages a rank; interleaved from 2, zb-v always 2, the others 1
  std::uint32_t micro_batches = 1;
};

// How many stages a rank holds: `asked`, or what the kind fixes.
std::uint32_t chunks_of(ScheduleKind kind, std::uint32_t asked);
// Ranks, chunks and size; not the number of micro-batches.
Status check_mesh(const ScheduleShape& shape);
// Whether this many micro-batches can be cut by the schedule: interleaved needs a multiple of the
// ranks.
Status check_micro_batches(const ScheduleShape& shape);
// Checks, then generates. A CSV is read by csv.hpp instead.
Result<PipelineSchedule> make_schedule(const ScheduleShape& shape);

PipelineSchedule gpipe(std::uint32_t ranks, std::uint32_t micro_batches);
PipelineSchedule one_f_one_b(std::uint32_t ranks, std::uint32_t micro_batches);
PipelineSchedule interleaved(std::uint32_t ranks, std::uint32_t chunks,
                             std::uint32_t micro_batches);
PipelineSchedule zb_h1(std::uint32_t ranks, std::uint32_t micro_batches);
PipelineSchedule zb_v(std::uint32_t ranks, std::uint32_t micro_batches);

// 1F1B's order for any number of micro-batches on stages that lie on the ranks as another schedule
// has put them: that of a rank for each stage, each operation at the time when it would begin
// there. What a step runs that a schedule cannot cut.
PipelineSchedule one_f_one_b_on(const std::vector<std::uint32_t>& rank_of_stage,
                                std::uint32_t micro_batches);

// An empty schedule of `stages` stages on `ranks` ranks, stage s on rank s % ranks.
PipelineSchedule round_robin(std::uint32_t ranks, std::uint32_t stages,
                             std::uint32_t micro_batches);

}  // namespace stoker::recipe
