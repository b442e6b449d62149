// sacct, where the cluster keeps accounts: how a job ended that slurmctld has forgotten. Explicit
// columns in text; an answer without the job proves nothing, for slurmdbd lags behind.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/event.hpp"

namespace stoker::slurm {

// sacct -X -P -n -D of one job and all its tasks, submitted at most `age` ago: without a start time
// an id that was given out twice would tell of the older job.
std::vector<std::string> accounting_command(std::uint64_t job, Duration age);

struct AccountingRow {
  JobId id;           // task 0: outside an array, or the tasks that never started
  bool rest = false;  // "123_[5-10%1]": the tasks that never started
  core::JobState state = core::JobState::Pending;
  std::uint32_t cancelled_by_uid = 0;
  int exit_code = 0, signal = 0;
  std::optional<WallTime> submitted;
  std::vector<NodeName> nodes;
  std::string user, name, comment;
};
// In sacct's order: of a requeued job the newest start comes last. Error: an answer that is cut
// off, or a malformed line.
Result<std::vector<AccountingRow>> parse_accounting(std::string_view text);

// What the accounts prove of the job that carries this token: its tasks that are over. A row counts
// when user and name are ours, it was not submitted before `since`, and its comment is the token
// (or was not stored). Empty: nothing is proven.
std::vector<core::JobSeen> proven_ends(const std::vector<AccountingRow>& rows, const Token& token,
                                       const std::string& user, WallTime since);

}  // namespace stoker::slurm
