// Which nodes each partition has, and which of them are reserved when: what `sinfo` and `scontrol
// show reservation -o` print (the same form in 20.11, 22.05 and 24.11).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/event.hpp"

namespace stoker::slurm {

std::vector<std::string> partitions_command();
std::vector<std::string> reservations_command();

// One line a node and partition, the default partition's name ends with '*'. Error: a line that is
// no node, or an answer that is cut off.
Result<std::vector<core::Partition>> parse_partitions(std::string_view text);
// One line a reservation, times as seconds since 1970 (SLURM_TIME_FORMAT=%s); those without nodes
// (licences) are left out. Error: anything else, so that half an answer frees no node.
Result<std::vector<core::Reservation>> parse_reservations(std::string_view text);

}  // namespace stoker::slurm
