// Nodes as sinfo reports them: "down*", "drained", "mixed-", … and the administrators' reasons.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/event.hpp"

namespace stoker::slurm {

// sinfo -a -N -h -o FORMAT: one line a node and partition; of one node alone, or of all ("").
std::vector<std::string> nodes_command(const std::string& node = "");

// "idle", "MIXED", "down*", "drained$", "idle~", "alloc+": can a new job start there? Suffixes of
// sinfo(1): * not responding, ~ powered off (SLURM wakes it), # powering up, % powering down, !
// waits to power down, $ maintenance, @ waits for a reboot, ^ reboots, - planned for another job.
bool node_usable(std::string_view state);

// "drained", "DRAINING*", "drng": somebody took it out of service.
bool is_drained(std::string_view state);

// Each node once, sorted as sinfo prints them. Error: an answer that is cut off or no list.
Result<std::vector<core::NodeSeen>> parse_nodes(std::string_view text);

}  // namespace stoker::slurm
