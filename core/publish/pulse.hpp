// The one-line PULSE / ***ALERT form of the chronicles: a log of logs that anybody can tail.
#pragma once

#include <string>

#include "core/state.hpp"

namespace stoker::core {

// "[2022-05-01 03:56:11] PULSE: tr11-176B-ml is running for 1-07:27:33 since 2022-04-29T20:28:38
// (1528763_4 on 'gpu_p5' partition (jean-zay-iam[01-34,36-49]) …"
// "[…] PULSE: … is waiting to be scheduled (1528874_[1-3%1] on 'gpu_p5' partition)"
// "[…] ***ALERT: … is not RUNNING or SCHEDULED! <why>***"
std::string pulse_line(const SiteState& state, const RunState& run, Instant now, WallTime wall);

}  // namespace stoker::core
