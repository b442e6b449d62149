// Alerts that the daemon holds back from a sink (wire/held.hpp), as it published them.
#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"
#include "wire/held.hpp"

namespace stoker::cli {

// Nothing, where an older daemon published.
Result<std::vector<wire::HeldAlert>> held_alerts(const std::string& state);
// Of one alert.
std::vector<wire::HeldAlert> held_of(const std::vector<wire::HeldAlert>& held,
                                     const std::string& id);
// "not sent to mail: quiet hours, until 2026-05-01T07:00:00Z". Not made printable.
std::string held_text(const wire::HeldAlert& held);

}  // namespace stoker::cli
