// Bystanders: files beside the log lines that show which rank is missing: how far each rank is in
// its collectives, and dumps of stacks. Pure.
#pragma once

#include <vector>

#include "diagnose/cause/diagnosis.hpp"

namespace stoker::diagnose {

// Names, in a diagnosis of a time-out, the ranks that did not enter the collective, and in any the
// ranks whose stacks stand apart.
void hear_bystanders(Diagnosis& diagnosis, const std::vector<ScannedLog>& logs,
                     const CauseRules& rules);

}  // namespace stoker::diagnose
