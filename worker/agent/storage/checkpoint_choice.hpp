// Which checkpoint an attempt resumes from: the newest good one of the lineage, and which newer
// ones are damaged and why. Blocks on the file system.
#pragma once

#include <string>

#include "lead/checkpoint.hpp"
#include "wire/lineage.hpp"
#include "wire/orders.hpp"

namespace stoker::agent {

using lead::ChosenCheckpoint;

// Absolute directory of the run's checkpoints.
std::string checkpoint_directory(const std::string& run_directory, const wire::Orders& orders);

// Only for stoker's own format. `verify`: every file's XXH3 is compared too, not only its size.
ChosenCheckpoint choose_checkpoint(const std::string& directory, const wire::Lineage& lineage,
                                   bool verify);

// An exact resume point. Error: it is missing or damaged, with what is wrong.
Status check_checkpoint(const std::string& directory, const wire::CheckpointId& id, bool verify);

}  // namespace stoker::agent
