// `scontrol show job -o ID`: the details of one job, or of all tasks of an array, one record a
// line. Only keys that are read; values with spaces belong to other keys and are skipped safely,
// because a key counts only after a space and only the first time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/event.hpp"
#include "slurm/queue_poll.hpp"

namespace stoker::slurm {

struct JobDetail {
  JobId id;
  std::uint32_t restarts = 0;
  core::JobState state = core::JobState::Pending;
  int exit_code = 0, signal = 0;
  std::string name;              // up to its first blank
  std::string command;           // path of the batch script
  std::string output;            // path that its output goes to, "" = unknown
  std::string excluded;          // hostlist, "" = none
  std::string nodes;             // hostlist, "" = it has none
  std::optional<WallTime> ends;  // of a running job: its wall
};

// A record goes on until the next one begins: names, comments and arguments may hold newlines.
// Error: a record without its id or with an unknown state.
Result<std::vector<JobDetail>> parse_job_details(std::string_view text);

// The token in a batch script's path, ".../batch/<token>.sh"; empty when it is none of ours.
Token token_of_command(std::string_view command);

// The run's name in a token "<run>-<order number>-<hex>".
RunName run_of(const Token& token);
// The token of a job in the queue: its comment, or, where the site has rewritten that, its script's
// path. Empty: none of ours.
Token token_of(const QueueRow& row);
// A job of this user that has the name of the token's run, and no token at all: an adopted script
// lies where it always did, so that its job has none once somebody has changed the comment.
// Together with the id that sbatch returned for the token, it is the token's.
bool lost_its_token(const QueueRow& row, const Token& token, const std::string& user);

}  // namespace stoker::slurm
