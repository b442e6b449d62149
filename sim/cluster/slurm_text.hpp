// SlurmText: SLURM's commands as text, the Processes port that slurm::SlurmScheduler calls. Answers
// are written from the cluster's truth in the very format that was asked for, and bent by the liars
// that are awake.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/engine/ports.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/ports.hpp"

namespace stoker::sim {

// The word after a flag of a command; "": without one.
std::string after(const std::vector<std::string>& argv, std::string_view flag);
// The job numbers of "1100,1200_3"; empty: all.
std::set<std::uint64_t> numbers_of(std::string_view list);
// "1100_3", or "1100" of a job without tasks and of what is left of a cancelled array (task 0).
std::string full_id(const SimJob& job, std::uint32_t number);
std::string epoch_seconds(Instant at);  // "N/A": never

class SlurmText : public core::Processes {
 public:
  SlurmText(Cluster& cluster, SimFiles& files, Timeline& time, Random& random,
            const ClusterShape& shape)
      : cluster_(cluster), files_(files), time_(time), random_(random), shape_(shape) {}

  Result<os::CommandOutput> run(const os::SpawnOptions& options, Duration deadline) override;
  void wake(Fault liar, bool awake);
  // Processes of a job on a node, for srun; without it there is no srun.
  void look_with(std::function<std::uint32_t(std::uint64_t, const NodeName&)> processes_on) {
    processes_on_ = std::move(processes_on);
  }
  [[nodiscard]] bool lies() const { return !awake_.empty(); }

 private:
  using Argv = std::vector<std::string>;
  [[nodiscard]] bool is(Fault liar) const { return awake_.contains(liar); }
  std::string steps(const std::string& job_text, bool records);
  Result<os::CommandOutput> squeue(const Argv& argv);
  os::CommandOutput rows(const Argv& argv);
  os::CommandOutput columns(const Argv& argv);
  os::CommandOutput scontrol(const Argv& argv);
  os::CommandOutput show_jobs(const Argv& argv);
  // slurm_orders.cpp
  [[nodiscard]] os::CommandOutput said(const Verdicts& verdicts, std::uint64_t id) const;
  os::CommandOutput update(const Argv& argv);
  os::CommandOutput act(const std::string& verb, const JobId& job);
  os::CommandOutput scancel(const Argv& argv);
  os::CommandOutput nodes();
  os::CommandOutput accounts(const Argv& argv);  // slurm_accounts.cpp
  Result<os::CommandOutput> sbatch(const Argv& argv);
  void bend(std::string& text);
  os::CommandOutput srun(const Argv& argv);  // the probe of a job, node by node

  Cluster& cluster_;
  SimFiles& files_;
  Timeline& time_;
  Random& random_;
  ClusterShape shape_;
  std::set<Fault> awake_;
  std::function<std::uint32_t(std::uint64_t, const NodeName&)> processes_on_;
  std::string stale_;  // the answer before the liar woke
};

}  // namespace stoker::sim
