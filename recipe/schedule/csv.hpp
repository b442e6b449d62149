// A schedule as CSV, in the form of torch.distributed.pipelining: a line a rank, a cell an
// operation
// (`2F0` = stage 2, forward, micro-batch 0; F, B, I, W), empty cells are idle time and are skipped.
// Transfers and reductions are not written: stoker adds them.
#pragma once

#include <string>
#include <string_view>

#include "recipe/schedule/schedule.hpp"

namespace stoker::recipe {

inline constexpr std::size_t kLargestScheduleCsv = 64u << 20;  // bytes

// Stages, ranks and micro-batches follow from the cells. Hostile text: every error is one line with
// FILE:LINE:COLUMN. What the cells say is judged by validate.hpp.
Result<PipelineSchedule> parse_schedule_csv(std::string_view text, const std::string& file);
// Compute operations only; parse_schedule_csv reads it back.
std::string render_schedule_csv(const PipelineSchedule& schedule);

}  // namespace stoker::recipe
