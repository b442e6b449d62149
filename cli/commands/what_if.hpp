// stoker plan RUN.yaml --what-if: other save intervals, times between failures, spares, and whether
// a rollback pays now, by what the run has shown.
#pragma once

#include <optional>

#include "cli/show/console.hpp"
#include "common/time.hpp"
#include "wire/status.hpp"

namespace stoker::cli {

struct WhatIf {  // given by the user; else as the run shows
  std::optional<Duration> interval, save_cost, restart_cost, mtbf, wait;
  std::optional<std::uint32_t> spares;
};

// Exit status: failed where neither the run nor the user tell what a save costs and how often it
// fails.
int show_what_if(const Console& console, const wire::StatusDocument& status, WhatIf given,
                 Duration exclude_for, bool json);

}  // namespace stoker::cli
