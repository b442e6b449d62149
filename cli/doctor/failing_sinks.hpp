// The alert sinks that do not deliver, as the daemon published them: alerts that did not arrive
// must be seen where people look.
#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/doctor/site_checks.hpp"
#include "wire/sinks.hpp"

namespace stoker::cli {

// Empty also where nothing was published.
Result<std::vector<wire::FailingSink>> failing_sinks(const std::string& state);

// "sink page (pagerduty) of tr11 does not deliver since …: why; lost: …", one line, made printable.
std::string failing_line(const wire::FailingSink& sink);

// For `doctor`: bad where an alert was lost or a sink has failed for a minute.
std::vector<Finding> check_sinks(const Context& context);
// Exposed for tests.
Finding judge_sink(const wire::FailingSink& sink, WallTime now);

}  // namespace stoker::cli
