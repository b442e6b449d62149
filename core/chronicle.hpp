// The chronicle: the run's story in Markdown, in the tone of the logs that people kept by hand:
// what happened, the evidence, what was done, iterations and time lost. A pure function of the
// journal.
#pragma once

#include <string>
#include <vector>

#include "core/journal.hpp"

namespace stoker::core {

// `rows`: the journal, in order; rows of other runs are left out. `policy`: of the run.
std::string chronicle(const std::vector<JournalRow>& rows, const RunPolicy& policy);

}  // namespace stoker::core
