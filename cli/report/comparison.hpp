// One run held against another: speed, incidents, losses at the same place of the data.
#pragma once

#include "cli/report/report.hpp"

namespace stoker::cli::postmortem {

std::string comparison(const Source& run, const Source& other);

}  // namespace stoker::cli::postmortem
