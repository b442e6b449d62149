// What to ask the administrator for: draining needs an operator's rights, so it is only ever
// proposed, as a line to paste.
#pragma once

#include <string>

#include "common/ids.hpp"
#include "common/result.hpp"

namespace stoker::slurm {

// scontrol update NodeName=n02 State=DRAIN Reason='stoker: …': why, at most 160 characters, without
// control characters. Error: a node name that no cluster can have.
Result<std::string> drain_command(const NodeName& node, const std::string& why);

}  // namespace stoker::slurm
