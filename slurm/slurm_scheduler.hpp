// The Scheduler port on SLURM, through its commands (never libslurm: its ABI changes with every
// release, and it is GPL). All calls have a deadline and a cleaned environment. Node states are not
// part of observe(): the poll stays one squeue a pass.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/ports.hpp"
#include "slurm/job_detail.hpp"
#include "slurm/queue_poll.hpp"

namespace stoker::slurm {

struct SlurmOptions {
  std::string user;                                // whose jobs are ours
  std::map<std::string, std::string> environment;  // of this process; cleaned before each call
  Duration deadline = 60s;                         // of one command
};

class SlurmScheduler : public core::Scheduler {
 public:
  SlurmScheduler(core::Processes& processes, core::Files& files, SlurmOptions options)
      : processes_(processes), files_(files), options_(std::move(options)) {}

  // Looks the token up first, always: a repetition never submits twice. Then writes the script,
  // calls sbatch and judges its answer.
  core::PortResult<JobId> submit(const core::SubmitRequest& request) override;
  // A job id is a hint: the queue is asked first, and a job with another token is left alone.
  core::PortResult<std::monostate> cancel(const core::Cancel& cancel) override;
  // scontrol's exit code means nothing here (1 when a task runs although the pending ones changed):
  // the list is read again.
  core::PortResult<std::monostate> set_exclusions(const core::SetExclusions& change) override;
  core::PortResult<std::optional<JobId>> look_up(const Token& token) override;
  Result<core::SchedulerView> observe(const std::vector<RunName>& runs) override;

 private:
  // What squeue does not tell, asked once for each state that a task has.
  struct Known {
    core::JobState state = core::JobState::Pending;
    Token token;
    std::uint32_t restart = 0;
    int exit_code = 0, signal = 0;
  };

  Result<os::CommandOutput> call(std::vector<std::string> argv);
  Result<std::vector<QueueRow>> queue(const std::vector<RunName>& names, std::uint64_t job = 0);
  Result<std::vector<JobDetail>> details(const JobId& job);
  Result<Known> known_of(const QueueRow& row);
  // True: this id is in the queue and carries this token.
  Result<bool> is_ours(const Token& token, const JobId& job);

  core::Processes& processes_;
  core::Files& files_;
  SlurmOptions options_;
  std::map<std::pair<JobId, std::uint64_t>, Known> known_;  // by task and raw id
  std::set<JobId> cancelled_;                               // by us, since this process started
};

}  // namespace stoker::slurm
