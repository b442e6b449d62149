// The Scheduler port on SLURM, through its commands or slurmrestd (controller.hpp). What an answer
// proves is decided here, for both alike; all questions have one budget.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/engine/node_finder.hpp"
#include "core/engine/ports.hpp"
#include "slurm/call_budget.hpp"
#include "slurm/controller.hpp"
#include "slurm/slurm_options.hpp"

namespace stoker::slurm {

class SlurmScheduler : public core::Scheduler, public core::NodeFinder {
 public:
  SlurmScheduler(core::Processes& processes, core::Files& files, SlurmOptions options);
  ~SlurmScheduler() override;

  // Looks the token up first, always: a repetition never submits twice. Then writes the script,
  // calls sbatch and judges its answer.
  core::PortResult<JobId> submit(const core::SubmitRequest& request) override;
  // A job id is a hint: the queue is asked first, and a job with another token is left alone.
  core::PortResult<std::monostate> cancel(const core::Cancel& cancel) override;
  // What was said about it means nothing: the list is read again.
  core::PortResult<std::monostate> set_exclusions(const core::SetExclusions& change) override;
  // slurm_drain.cpp
  core::PortResult<std::string> drain(const core::DrainNode& drain) override;
  // A person waits for this one, and it is rare: it has no part in the budget.
  Result<std::set<NodeName>> find_nodes(const std::vector<NodeName>& asked) override;
  core::PortResult<std::monostate> signal(const core::SignalJob& signal) override;
  core::JobProbed probe(const core::ProbeRequest& request) override;
  // Two programs must agree that a token is unknown: an empty squeue alone proves nothing.
  core::PortResult<std::optional<JobId>> look_up(const Token& token) override;

  // slurm_observe.cpp. One squeue; squeue -O for what changed; sinfo at the start, every ten
  // minutes and when a node has failed; scontrol for expected jobs that are not in the queue.
  Result<core::SchedulerView> observe(const std::vector<RunName>& runs) override;
  void expect(std::vector<core::JobExpected> jobs) override;
  void guard(std::vector<core::RunGrounds> runs) override;
  Duration rest() override { return budget_.wait(options_.now()); }

 private:
  // What squeue does not tell, asked once for each state that a task has.
  struct Known {
    core::JobState state = core::JobState::Pending;
    JobNumbers numbers;
  };
  using TaskKey = std::pair<JobId, std::uint64_t>;  // and its raw id
  struct Denial {
    Instant first, last;
  };

  Result<std::vector<QueueRow>> queue(const std::vector<RunName>& names, std::uint64_t job = 0);
  std::map<RunName, std::vector<std::string>> rivals_in(
      const std::vector<QueueRow>& rows, const std::vector<core::RunGrounds>& grounds);
  bool is_member(const std::string& user, const std::string& group);
  // Whose jobs squeue is asked for where a run has a group.
  enum class Asked : std::uint8_t { Everybody, Members, OurUser };
  Asked whom_to_ask();
  Asked narrower_than(Asked whom);
  std::string users_to_ask(const std::set<std::string>& groups, Asked whom);
  Result<std::vector<QueueRow>> guarded_queue(const std::vector<RunName>& names,
                                              const std::vector<core::RunGrounds>& grounds);
  // One question about the token and about rivals: an id, an error, or neither.
  struct Before {
    std::optional<JobId> job;
    std::optional<Error> error;
  };
  Before before_submission(const core::SubmitRequest& request);
  core::PortResult<std::optional<JobId>> find_token(const std::vector<QueueRow>& rows,
                                                    const Token& token);
  std::set<std::uint64_t> known_jobs() const;  // that we submitted
  // Proves that the exclusions alone leave too few nodes.
  bool starves(const core::SubmitRequest& request, const Submission& prepared);
  Status write_script(const core::SubmitRequest& request, const Submission& prepared);
  // Without names that the cluster does not know (any more): SLURM refuses the whole list for one.
  std::vector<NodeName> known_nodes(const std::vector<NodeName>& nodes) const;
  // As SLURM takes it; none: not in the queue, another token, or over (0 = any task).
  Result<std::optional<JobId>> name_of(const Token& token, const JobId& job);
  Status look_at_steps(const QueueRow& row, core::JobProbed& out);
  void look_inside(const core::ProbeRequest& request, const QueueRow& row, core::JobProbed& out);
  Status learn_numbers(const std::vector<QueueRow>& rows);
  core::JobSeen seen_of(const QueueRow& row, const Token& token) const;
  bool was_cancelled_here(const JobId& job, bool waited) const;
  void look_for_rests(const std::vector<QueueRow>& rows, core::SchedulerView& view);
  void look_at_nodes(core::SchedulerView& view, bool now);
  void look_at_calendar(core::SchedulerView& view);
  void look_for_missing(const std::vector<QueueRow>& rows, core::SchedulerView& view);
  // What a probe has found suspended although squeue shows it running is asked about again.
  void correct(std::vector<QueueRow>& rows);
  bool is_suspended(const JobId& job);
  void show_hidden(const core::JobExpected& job, core::SchedulerView& view);
  std::string why_gone(const core::JobExpected& job, core::SchedulerView& view);
  // What sacct proves of a job that slurmctld has forgotten; false: nothing.
  bool ask_accounts(const core::JobExpected& job, core::SchedulerView& view);
  Result<std::string> cluster_name();
  // Which cluster answers, asked once. Error: another one than the jobs were submitted to.
  Status know_cluster();

  core::Files& files_;
  SlurmOptions options_;
  CallBudget budget_;
  std::unique_ptr<Controller> controller_;
  // Of the observing thread.
  std::map<TaskKey, Known> known_;
  std::set<std::uint64_t> over_;  // arrays of which the answer before showed only ended tasks
  std::map<Token, Denial> denials_;
  std::map<Token, Instant> asked_;  // missing jobs, and when they were last looked for
  std::optional<Instant> nodes_at_;
  std::vector<core::Partition> partitions_;  // of the observer's thread alone, as these times
  std::optional<Instant> partitions_at_;
  struct Membership {
    bool member = false;
    Instant asked;
  };
  // Of all threads.
  mutable std::mutex mutex_;
  std::set<JobId> cancelled_;                // by us, since this process started
  std::set<std::uint64_t> rests_cancelled_;  // the same: arrays whose waiting tasks were
  std::set<JobId> doubted_;                  // suspended, says scontrol; running, says squeue
  std::vector<core::JobExpected> expected_;
  std::vector<core::RunGrounds> grounds_;
  std::map<std::pair<std::string, std::string>, Membership> members_;  // by user and group
  Asked asked_of_ = Asked::Everybody;
  std::optional<Instant> too_long_at_;  // when those of more users were more than is read
  NodeLists node_lists_;                // of the queue, as it was last seen
  std::string cluster_;                 // "" = not asked yet
  bool accounts_ = false;               // there is a slurmdbd
  std::optional<std::uint32_t> max_array_;
  std::set<NodeName> nodes_;  // that sinfo knows; empty: not asked yet
};

}  // namespace stoker::slurm
