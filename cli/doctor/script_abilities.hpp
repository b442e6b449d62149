// What works of a run without agents and what does not, as its own configuration has it: the table
// of docs/slurm.md, for `stoker check`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/policy.hpp"

namespace stoker::cli {

// "save" -> "no: …", in the order in which they are shown. Empty for a run with agents.
std::vector<std::pair<std::string, std::string>> script_abilities(const core::RunPolicy& policy);

}  // namespace stoker::cli
