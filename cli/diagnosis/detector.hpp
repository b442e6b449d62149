// What looks through logs: our signatures and those of a site's files, compiled once and kept.
#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"
#include "diagnose/match/log_scan.hpp"

namespace stoker::cli {

// Errors: a signature file that cannot be read or has mistakes; each was said on the console.
Result<diagnose::Detector> make_detector(const Context& context,
                                         const std::vector<std::string>& signatures);

}  // namespace stoker::cli
