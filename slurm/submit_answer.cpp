#include "slurm/submit_answer.hpp"

#include <algorithm>
#include <charconv>

#include "slurm/client_call.hpp"

namespace stoker::slurm {
namespace {

struct Refusal {
  std::string_view text, advice;
};
// slurm_errno.c of 22.05 and later. The first that is found counts.
constexpr Refusal kRefusals[] = {
    {"Invalid account", "set scheduler.account to one of `sacctmgr show assoc user=$USER`"},
    {"invalid partition", "set scheduler.partition to one of `sinfo -s`"},
    {"Invalid partition name", "set scheduler.partition to one of `sinfo -s`"},
    {"No partition specified", "set scheduler.partition: the cluster has no default one"},
    {"group not permitted to use this partition",
     "this partition is for other groups: another scheduler.partition, or ask for the group"},
    {"Requested nodes not in this partition", "remove the --nodelist in scheduler.extra"},
    {"Required partition not available",
     "the partition takes no jobs now: another scheduler.partition, or wait"},
    {"Partition in DOWN state", "the partition is down: another scheduler.partition, or wait"},
    {"System submissions disabled", "the operators have closed the cluster; it is tried again"},
    {"Invalid qos", "remove or change the --qos in scheduler.extra"},
    {"requested QOS usage threshold", "the account has used too much: another --qos, or wait"},
    {"Job violates accounting/QOS policy", "ask for less, or have the limit raised"},
    {"Requested time limit is invalid", "lower scheduler.time_limit to the partition's"},
    {"Time limit specification required", "set scheduler.time_limit, or --time in the script"},
    {"Memory specification can not be satisfied", "lower the --mem in scheduler.extra"},
    {"Requested node configuration is not available",
     "lower scheduler.nodes, or include nodes again (stoker nodes)"},
    {"Required node not available", "remove the --nodelist in scheduler.extra, or wait"},
    {"Node count specification invalid", "lower scheduler.nodes to what the partition gives"},
    {"Job size specification needs", "set scheduler.nodes"},
    {"More processors requested than permitted", "lower scheduler.cpus_per_task"},
    {"Requested more tasks than available", "lower scheduler.nodes or cpus_per_task"},
    {"CPU count specification invalid", "change scheduler.cpus_per_task"},
    {"Task count specification invalid", "remove the --ntasks in scheduler.extra"},
    {"Memory required by task is not available", "lower the --mem in scheduler.extra"},
    {"Invalid generic resource", "set scheduler.gpus_per_node to what the nodes have"},
    {"Invalid GRES", "set scheduler.gpus_per_node to what the nodes have"},
    {"Duplicate generic resource", "name GPUs once: scheduler.gpus_per_node, or scheduler.extra"},
    {"Requested GRES option unsupported", "remove the GPU options in scheduler.extra"},
    {"Invalid Trackable RESource", "remove or change the --tres options in scheduler.extra"},
    {"Job dependency problem", "the job that it depends on is gone: submit without it"},
    {"Circular job dependency", "remove the --dependency in scheduler.extra"},
    {"Invalid job array specification",
     "lower scheduler.array.tasks below MaxArraySize; 1 needs no arrays"},
    {"Job submit/allocate failed", "see the line before it in the job's own message"},
    {"job submit limit", "wait until jobs have ended, or have MaxSubmitJobs raised"},
    {"AssocMaxSubmitJobLimit", "wait until jobs have ended, or have MaxSubmitJobs raised"},
    {"QOSMaxSubmitJobPerUserLimit", "wait until jobs have ended, or have the limit raised"},
    {"job queue full", "MaxJobCount jobs are in the queue; it is tried again"},
    {"temporarily unable to accept job", "slurmctld is busy; it is tried again"},
    {"Unable to create job record", "slurmctld is busy; it is tried again"},
    {"Access denied to requested reservation",
     "remove or change the --reservation in scheduler.extra"},
    {"Access/permission denied", "this account or partition is not open to you"},
    {"Invalid user id", "submit as a user that the cluster knows"},
    {"Invalid group id", "submit with a group that the cluster knows"},
    {"Protocol authentication error", "munge does not run here, or the clocks differ"},
    {"Invalid authentication credential", "munge does not run here, or the clocks differ"},
    {"Incompatible versions of client and server",
     "these commands are of another SLURM release than the cluster: fix PATH"},
    {"it is an invalid entry for",
     "set scheduler.cluster to one of `sacctmgr show cluster`; that cluster may be down"},
    {"Only local cluster communication is available",
     "slurmdbd, which knows the other clusters, does not answer; it is tried again"},
    {"Invalid cluster name", "these commands are of another cluster: fix PATH and SLURM_CONF"},
    {"Can't find an address, check slurm.conf",
     "set SLURM_CONF to the cluster's slurm.conf, or unset it"},
    {"Invalid begin time", "write scheduler.begin as sbatch --begin takes it"},
    {"Invalid --begin specification", "write scheduler.begin as sbatch --begin takes it"},
    {"Invalid time specified", "write scheduler.begin as sbatch --begin takes it"},
    {"Requested reservation", "remove or change the --reservation in scheduler.extra"},
    {"Invalid license specification", "remove or change the --licenses in scheduler.extra"},
    {"Invalid feature specification", "remove or change the --constraint in scheduler.extra"},
    {"Invalid preferred feature", "remove or change the --prefer in scheduler.extra"},
    {"Burst Buffer", "remove or change the burst buffer in scheduler.extra"},
    {"Invalid mcs_label", "remove or change the --mcs-label in scheduler.extra"},
    {"Requested operation not supported on this system",
     "remove the option in scheduler.extra that this cluster does not have"},
    {"unrecognized option", "this sbatch does not know an option of scheduler.extra"},
    {"Unable to process configuration file",
     "set SLURM_CONF to the cluster's slurm.conf, or unset it"},
    {"Unable to open file", "sbatch cannot read the batch script: see its rights on this host"},
    {"Unable to contact slurm controller", "slurmctld is away; it is tried again"},
    {"standby mode", "slurmctld is being replaced by its backup; it is tried again"},
    {"I/O error writing script", "slurmctld's disk is full: tell the operators; it is tried again"},
    {"Slurm internal error", "tell the operators; it is tried again"},
    {"Pathname of a file, directory or other parameter too long", "shorten directory or --chdir"},
    {"Environment is missing", "remove the --export in scheduler.extra"},
    {"Job script size exceeds", "shorten the batch script"},
    {"Requested partition configuration not available now", "another partition, or wait"},
    {"Invalid wckey", "remove or change the --wckey in scheduler.extra"},
    {"Invalid --nice value", "remove or change the --nice in scheduler.extra"},
    {"Invalid node name specified", "an excluded node does not exist any more"},
    {"Requested operation is presently disabled",
     "the operators have switched it off; it is tried again"},
};

// Said when the controller may have taken the job all the same.
constexpr std::string_view kUnsure[] = {"Socket timed out",       "timed out",
                                        "Connection reset",       "Zero Bytes were",
                                        "Unexpected message",     "Message receive failure",
                                        "Message send failure",   "(send failure)",
                                        "(receive failure)",      "(shutdown failure)",
                                        "Transport endpoint",     "Broken pipe",
                                        "Communication shutdown", "Received zero length message"};

}  // namespace

bool is_refusal(std::string_view said) {
  return std::any_of(std::begin(kRefusals), std::end(kRefusals), [said](const Refusal& known) {
    return said.find(known.text) != std::string_view::npos;
  });
}

bool loses_the_controller(std::string_view said) {
  return std::any_of(std::begin(kUnsure), std::end(kUnsure), [said](std::string_view text) {
    return said.find(text) != std::string_view::npos;
  });
}

namespace {

struct Parsable {
  std::uint64_t id = 0;
  std::string_view cluster;
};

std::optional<Parsable> last_parsable(std::string_view out) {
  std::optional<Parsable> found;
  while (!out.empty()) {
    std::string_view line = out.substr(0, out.find('\n'));
    out.remove_prefix(std::min(line.size() + 1, out.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    std::uint64_t id = 0;
    const char* end = line.data() + line.size();
    const auto [at, error] = std::from_chars(line.data(), end, id);
    if (error != std::errc{} || id == 0) continue;
    const std::string_view rest(at, static_cast<std::size_t>(end - at));
    const bool cluster = rest.size() > 1 && rest.front() == ';' &&
                         rest.find_first_of(" \t") == std::string_view::npos;
    if (rest.empty() || cluster) found = Parsable{id, cluster ? rest.substr(1) : rest};
  }
  return found;
}

}  // namespace

std::optional<std::uint64_t> parse_parsable(std::string_view out) {
  const auto found = last_parsable(out);
  return found ? std::optional(found->id) : std::nullopt;
}

std::string named_cluster(std::string_view out) {
  const auto found = last_parsable(out);
  return found ? std::string(found->cluster) : "";
}

bool leaves_too_few_nodes(const os::CommandOutput& tried) {
  return !tried.status.ok() &&
         tried.err.find("Requested node configuration is not available") != std::string::npos;
}

std::string advice_for(std::string_view refusal) {
  for (const Refusal& known : kRefusals)
    if (refusal.find(known.text) != std::string_view::npos) return std::string(known.advice);
  return "";
}

core::PortResult<JobId> judge_submit(const os::CommandOutput& output) {
  const auto id = parse_parsable(output.out);
  if (output.status.ok() && id) return JobId{*id, 0};
  const std::string said = what_it_said(output);
  const auto unknown = [&said](const std::string& what) {
    return core::PortError{{what + ": " + said, "sbatch", "the token will be looked up"},
                           core::Certainty::Unknown};
  };
  if (output.status.ok()) return unknown("sbatch ended well but named no job");
  if (output.status.signal != 0) return unknown("sbatch was killed");
  if (loses_the_controller(output.err)) return unknown("sbatch lost the controller");
  if (id) return unknown("sbatch named a job and failed");
  const bool said_why = output.err.find("error:") != std::string::npos ||
                        output.err.find("fatal:") != std::string::npos || is_refusal(output.err);
  if (!said_why) return unknown("sbatch failed without a reason");
  return core::PortError{{"sbatch refused: " + said, "sbatch", advice_for(output.err)},
                         core::Certainty::Definite};
}

}  // namespace stoker::slurm
