// The overview: how serious each run's state is, in one word and one sentence, worst first. Pure.
#pragma once

#include <string>

#include "daemon/http/site_view.hpp"

namespace stoker::daemon {

// In this order the page lists runs.
enum class Level { Critical, Warning, Ok, Over };
Level level_of(const wire::StatusDocument& run);

// {"level", "sentence", "runs": status documents with "level", worst first, "alerts", "failing",
//  "nodes_out", "nodes_out_names", "health"}
Json overview(const SiteView& view);

}  // namespace stoker::daemon

template <>
struct stoker::EnumNames<stoker::daemon::Level> {
  static constexpr std::array names{"critical", "warning", "ok", "over"};
};
