// Processes of the job by SLURM_JOB_ID in their environment: cgroups are not everywhere. Slurmds
// that share a host are distinguished by SLURMD_NODENAME, the probe's own step by SLURM_STEP_ID.
#include "worker/agent/rank/job_stacks.hpp"

#include <fmt/format.h>
#include <map>
#include <unistd.h>

#include "common/os/files.hpp"
#include "wire/probe_answer.hpp"
#include "worker/agent/rank/process_tree.hpp"
#include "worker/agent/rank/stacks.hpp"

namespace stoker::agent {
namespace {

constexpr std::size_t kMostTargets = 256;

std::string value_in(const std::string& environment, const std::string& name) {
  for (std::size_t at = 0; at < environment.size();) {
    const std::size_t end = std::min(environment.find('\0', at), environment.size());
    if (environment.compare(at, name.size() + 1, name + "=") == 0)
      return environment.substr(at + name.size() + 1, end - at - name.size() - 1);
    at = end + 1;
  }
  return {};
}

std::string own(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 10 &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

std::string this_node() {
  if (const std::string node = own("SLURMD_NODENAME"); !node.empty()) return node;
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "node";
}

// "n01.3" of rank 3; "n01.batch" of what belongs to no step.
std::string name_of_target(const std::string& node, const std::string& environment) {
  if (value_in(environment, "SLURM_STEP_ID").empty()) return node + ".batch";
  for (const char* key : {"RANK", "SLURM_PROCID"})
    if (const std::string rank = value_in(environment, key); is_number(rank))
      return node + "." + rank;
  return node + ".other";
}

}  // namespace

Status probe_job(const JobProbe& probe) {
  if (!is_number(probe.job)) return fail("--job needs SLURM's number of the job", probe.job);
  const std::string node = this_node();
  if (node.find('/') != std::string::npos) return fail("no node name", node);
  const std::string step = own("SLURM_STEP_ID");
  std::map<std::string, StackTarget> targets;
  wire::ProbeAnswer answer{probe.question, node, 0, 0};
  for (const pid_t pid : processes_with("SLURM_JOB_ID=" + probe.job)) {
    const auto environment = os::read_file(fmt::format("/proc/{}/environ", pid), 4u << 20);
    if (!environment) continue;
    const std::string there = value_in(*environment, "SLURMD_NODENAME");
    if (pid == ::getpid() || (!there.empty() && there != node) ||
        (!step.empty() && value_in(*environment, "SLURM_STEP_ID") == step))
      continue;
    ++answer.processes;
    const std::string name = name_of_target(node, *environment);
    if (targets.size() >= kMostTargets && targets.count(name) == 0) continue;
    targets[name].name = name;
    targets[name].pids.push_back(pid);
  }
  std::vector<StackTarget> list;
  for (auto& [name, target] : targets) list.push_back(std::move(target));
  // Answered before any tool is started: on a busy node they take longer than srun is waited for.
  Status answered = fail("cannot make the folder", probe.directory);
  write_stacks(list, probe.directory, [&](std::uint32_t written) {
    answer.stacks = written;
    answered = os::replace_file(probe.directory + "/" + node + wire::kProbeEnd,
                                to_json_text(answer) + "\n", os::Durability::Cached);
  });
  return answered;
}

}  // namespace stoker::agent
