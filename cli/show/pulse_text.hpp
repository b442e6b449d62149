// The PULSE line of a run from its published status, in the words of the BLOOM chronicles. Pure.
#pragma once

#include <string>

#include "common/time.hpp"
#include "wire/status.hpp"

namespace stoker::cli {

// "[2022-05-01 03:56:11] PULSE: hello is running for 07:27:33 since 2022-04-29T20:28:38 (12_4 on
// n[01-02]), iteration 120/500, loss 2.1345"; "… is waiting to be scheduled (12)"; for a run that
// neither runs nor waits and was not ended on purpose: "***ALERT: hello is HELD, … <why>***"; for
// one whose publication is stale: "***ALERT: hello is not observed! … last published … 3min ago".
std::string pulse_text(const wire::StatusDocument& status, WallTime now);
// Whether that line is an ***ALERT.
bool is_alert(const wire::StatusDocument& status);

}  // namespace stoker::cli
