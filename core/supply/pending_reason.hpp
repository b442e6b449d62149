// Why a job waits, in SLURM's words, and what that asks for. Source: squeue(1), "JOB REASON CODES",
// and slurm.h of 21.08 to 26.05.
#pragma once

#include <string>
#include <string_view>

namespace stoker::core::supply {

// What a pending job's reason asks for.
enum class ReasonClass {
  Waiting,  // it will pass: Resources, Priority, BeginTime, …
  Person,   // a person must change something: limits, accounts, holds
  Ours,     // ours to fix: nodes that we excluded
  Never     // it can never start: its dependency cannot be satisfied any more
};
struct Reason {
  ReasonClass kind = ReasonClass::Waiting;
  std::string meaning;  // one clause that people read
};
// `we_excluded`: the job carries exclusions of ours; then "Resources" that lasts may be our doing,
// and BadConstraints is. Unknown reasons wait, and say that they are unknown.
Reason classify_reason(std::string_view reason, bool we_excluded = false);

}  // namespace stoker::core::supply
