// docs/states.md: the transition tables as Markdown. The lint regenerates it and compares.
#pragma once

#include <string>

namespace stoker::core {

std::string render_states();

}  // namespace stoker::core
