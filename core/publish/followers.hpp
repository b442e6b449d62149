// Followers (`after:` of RUN.yaml) as status shows them, in the order of RUN.yaml.
#pragma once

#include <vector>

#include "core/state.hpp"
#include "wire/status.hpp"

namespace stoker::core {

std::vector<wire::StatusFollower> followers_of(const RunState& run);

}  // namespace stoker::core
