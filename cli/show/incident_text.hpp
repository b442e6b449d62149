// What happened to a run lately and what it cost, from its published status: the figures of report,
// page, chronicle and digest. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/time.hpp"
#include "wire/status.hpp"

namespace stoker::cli {

// "rank_crash" -> "rank crash".
std::string cause_words(const std::string& kind);

// The incidents of the last day, the newest first: "hang 5min ago at iteration 146: 2.3s lost, 6
// iterations repeated, 0.02 GPU hours"; at most three, then one line for the others.
std::vector<std::string> incident_lines(const wire::StatusDocument& status, WallTime now);

// What has to be done: "" = status shows alerts, and they say it.
std::string to_do_line(const wire::StatusDocument& status);

}  // namespace stoker::cli
