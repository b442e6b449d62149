// Hostlists as SLURM writes them: "n[001-004,7],gpu3" <-> n001 n002 n003 n004 n7 gpu3. At most
// 100,000 names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/ids.hpp"
#include "common/result.hpp"

namespace stoker {

// Errors say what is wrong at which column. Accepts several lists separated by commas; keeps order
// and duplicates.
Result<std::vector<NodeName>> expand_hostlist(std::string_view text);

// Sorted and without duplicates: the shortest usual form, "n[001-004],n7".
std::string compress_hostlist(std::vector<NodeName> nodes);

}  // namespace stoker
