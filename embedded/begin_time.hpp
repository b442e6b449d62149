// --begin and --dependency as sbatch writes them, in the forms that the embedded scheduler takes.
#pragma once

#include <string_view>
#include <vector>

#include "common/ids.hpp"
#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker::embedded {

// "" and "now" = `now`; "now+90" (seconds), "now+2hours", "+10min" (a duration from now);
// "2026-05-01T03:00[:00]" and "2026-05-01" in local time as SLURM takes them, or with a final Z in
// UTC; "03:00[:00]" the next time it is that late. Error: any other text.
Result<WallTime> parse_begin(std::string_view text, WallTime now);

struct Dependency {
  bool singleton = false;
  std::vector<JobId> after;  // task 0 = the whole array
};
// "afterany:12:13_2,singleton" in any order; "" = none. Error: another kind of dependency.
Result<Dependency> parse_dependency(std::string_view text);

}  // namespace stoker::embedded
