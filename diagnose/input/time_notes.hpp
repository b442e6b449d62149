// What is assumed about the clocks of several logs when one finding is said to be before another.
#pragma once

#include <string>
#include <vector>

#include "diagnose/match/finding.hpp"

namespace stoker::diagnose {

// A sentence for each assumption; `candidates` are the findings that were ranked.
std::vector<std::string> time_notes(const std::vector<const Finding*>& candidates,
                                    const std::vector<ScannedLog>& logs);

}  // namespace stoker::diagnose
