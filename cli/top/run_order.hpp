// The order of the runs on the first screen: worst first, then by name; and which of them a filter
// leaves. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/top/view.hpp"

namespace stoker::cli::top {

// How much a run needs a person: 100 = an open critical alert … 0 = finished.
int badness(const wire::StatusDocument& status);

// Runs whose name, state, condition or reason contains `filter` (case does not matter), worst
// first. Pointers into `view`.
std::vector<const wire::StatusDocument*> ordered(const View& view, std::string_view filter);

// `text` contains `filter`, ignoring the case of ASCII letters. "" is contained in everything.
bool contains(std::string_view text, std::string_view filter);

// nullptr: no run of this name was published.
const wire::StatusDocument* run_named(const View& view, std::string_view name);

}  // namespace stoker::cli::top
