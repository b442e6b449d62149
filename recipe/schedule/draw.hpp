// A schedule as a picture in text: a row a rank, a column a unit of time, when every F, I and W
// takes one unit (B two). "F2" is the forward of micro-batch 2; with several chunks a rank the
// letter behind it is the chunk; "." is idle.
#pragma once

#include <string>

#include "recipe/schedule/simulate.hpp"

namespace stoker::recipe {

// The picture. Error: the schedule cannot go on.
Result<std::string> draw_schedule(const PipelineSchedule& schedule);
// The same as SVG, with given times; the stage in each box's title identifies the chunk.
Result<std::string> draw_schedule_svg(const PipelineSchedule& schedule, const OpTimes& times);
// Of a lowered schedule: a line a rank, its operations in order, with the slot of each F.
std::string list_operations(const PipelineSchedule& schedule);
// "makespan 33, bubble 27.3 %" and "peak activations 4 3 2 1".
std::string makespan_text(const Timeline& timeline);
std::string peak_text(const Timeline& timeline);

}  // namespace stoker::recipe
