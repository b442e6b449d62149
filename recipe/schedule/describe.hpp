// docs/schedules.md: what the pipeline schedules are, with pictures and figures made by the code.
// The lint regenerates it and compares.
#pragma once

#include <string>

namespace stoker::recipe {

std::string render_schedules();

}  // namespace stoker::recipe
