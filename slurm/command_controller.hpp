// SLURM's commands as the way in (never libslurm: its ABI changes with every release, and it is
// GPL). All calls have a deadline and a cleaned environment.
#pragma once

#include <mutex>

#include "slurm/call_budget.hpp"
#include "slurm/controller.hpp"
#include "slurm/slurm_options.hpp"

namespace stoker::slurm {

class TokenSearch;

class CommandController final : public Controller {
 public:
  CommandController(core::Processes& processes, CallBudget& budget, const SlurmOptions& options)
      : processes_(processes), budget_(budget), options_(options) {}

  Result<std::vector<QueueRow>> queue(const QueueQuestion& question) override;
  Result<std::map<JobId, JobNumbers>> numbers(const std::vector<std::uint64_t>& jobs) override;
  // JSON where scontrol writes it, for names with blanks; any trouble with it, and the text is
  // asked.
  Result<std::vector<JobDetail>> details(const JobId& job) override;
  Result<bool> shows(const Token& token) override;
  Result<IdBelongs> holder(std::uint64_t job, const Token& token) override;
  Result<std::vector<core::NodeSeen>> nodes(const std::string& node, Duration limit) override;
  Result<ClusterFacts> cluster() override;

  core::PortResult<JobId> submit(const Submission& prepared) override;
  Tried try_out(const Submission& prepared) override;
  core::PortResult<std::monostate> cancel(const JobId& job, bool pending_only) override;
  core::PortResult<std::monostate> signal(const JobId& job, const std::string& name) override;
  // scontrol's exit code means nothing here (1 when a task runs although the pending ones changed).
  core::PortResult<std::string> exclude(const JobId& array, const std::string& nodes) override;

  Result<os::CommandOutput> question(std::vector<std::string> argv) override;
  Result<os::CommandOutput> act(std::vector<std::string> argv) override;

 private:
  Result<os::CommandOutput> search(std::vector<std::string> argv, TokenSearch& search);
  Result<bool> is_of_another(std::uint64_t job);
  Result<os::CommandOutput> run(const os::SpawnOptions& options, Duration limit = {});
  void look_for_siblings();
  bool is_ours(const std::string& cluster);
  std::string cluster_for(const Submission& prepared);
  core::PortError take_back(const JobId& job, const std::string& cluster);
  Result<os::CommandOutput> call_sbatch(const Submission& prepared, bool test_only);
  core::PortResult<std::monostate> scancel(std::vector<std::string> options, const JobId& job);

  core::Processes& processes_;
  CallBudget& budget_;
  const SlurmOptions& options_;
  std::mutex mutex_;
  bool json_ = false;       // scontrol writes JSON
  std::string name_;        // of the cluster; "" = not asked yet
  bool federated_ = false;  // it has siblings
};

// Errors of a command that never ran prove that nothing was done.
bool never_started(const Error& error);

}  // namespace stoker::slurm
