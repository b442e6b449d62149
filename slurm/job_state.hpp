// SLURM's words for a job's state, also truncated, with flags, "CANCELLED by 1000". Source:
// squeue(1), sacct(1) and slurm.h of 21.08 to 26.05.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/event.hpp"

namespace stoker::slurm {

struct StateWord {
  core::JobState state = core::JobState::Pending;
  std::uint32_t cancelled_by_uid = 0;  // of "CANCELLED by 1000"
};

// "RUNNING", "CANCELLED by 1000", "CANCELLED+", "OUT_OF_ME+" (sacct without width), "R" and the
// other two-letter forms. Flags that squeue shows instead of the base state (COMPLETING,
// STAGE_OUT, REQUEUED, …) count as what they mean for us; none of them is terminal. Empty: an
// unknown word, which proves nothing.
std::optional<StateWord> parse_state(std::string_view word);

}  // namespace stoker::slurm
