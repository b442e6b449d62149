// SlurmText, the orders: what scontrol and scancel of 22.05 answer to hold, release, requeue,
// suspend, resume, update and cancel, and how sinfo shows the nodes.
#include <algorithm>
#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "sim/cluster/slurm_text.hpp"
#include "sim/transcript/words.hpp"
#include "wire/probe_answer.hpp"

namespace stoker::sim {
namespace {

const char* text_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::Done: return "No error";
    case Verdict::NoSuchJob: return "Invalid job id specified";
    case Verdict::Pending: return "Job is pending execution";
    case Verdict::Over: return "Job/step already completing or completed";
    case Verdict::Finished: return "Job has already finished";
    case Verdict::NotPending: return "Job is no longer pending execution";
    case Verdict::NotSuspended: return "Job is not suspended";
    case Verdict::NotRunning: return "Job is not running";
    case Verdict::InvalidNodes: return "Invalid node name specified";
    case Verdict::Disabled: return "Requested operation is presently disabled";
    case Verdict::Denied: return "Access/permission denied";
  }
  return "";
}

// "1-3,5"
std::string ranges(const std::set<std::uint32_t>& tasks) {
  std::string out;
  for (auto it = tasks.begin(); it != tasks.end();) {
    const std::uint32_t first = *it;
    std::uint32_t last = first;
    while (++it != tasks.end() && *it == last + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ",", first);
    if (last != first) out += fmt::format("-{}", last);
  }
  return out;
}

os::CommandOutput output(std::string err, int code) {
  os::CommandOutput output;
  output.err = std::move(err);
  output.status.code = code;
  return output;
}

// Of an array, slurmctld answers record by record: scontrol is content only when all records say
// the same, and a record without a task number is left out of what they say.
os::CommandOutput answer(const Verdicts& verdicts, const SimJob* job, std::uint64_t id) {
  if (job == nullptr || !job->array) {
    const Verdict verdict = verdicts.begin()->first;
    if (verdict == Verdict::Done) return output("", 0);
    return output(fmt::format("{} for job {}\n", text_of(verdict), id), 1);
  }
  if (verdicts.size() == 1) {
    const auto& [verdict, tasks] = *verdicts.begin();
    if (verdict == Verdict::Done || tasks.empty()) return output("", 0);
  }
  std::map<std::uint32_t, std::string> lines;  // by first task
  for (const auto& [verdict, tasks] : verdicts)
    lines[tasks.empty() ? ~0u : *tasks.begin()] =
        tasks.empty() ? "(null): No error\n"
                      : fmt::format("{}_{}: {}\n", id, ranges(tasks), text_of(verdict));
  std::string err;
  for (const auto& [first, line] : lines) err += line;
  return output(err, 1);
}

}  // namespace

os::CommandOutput SlurmText::said(const Verdicts& verdicts, std::uint64_t id) const {
  const auto found = cluster_.jobs().find(id);
  return answer(verdicts, found == cluster_.jobs().end() ? nullptr : &found->second, id);
}

// scontrol update JobId=… ExcNodeList=… NodeList=… TimeLimit=… EndTime=now+…, or NodeName=… State=…
// Reason=…
os::CommandOutput SlurmText::update(const Argv& argv) {
  std::map<std::string, std::string> words;
  for (const std::string& word : argv)
    if (const auto equals = word.find('='); equals != std::string::npos)
      words[word.substr(0, equals)] = word.substr(equals + 1);
  if (words.contains("NodeName")) {
    const std::string& state = words["State"];
    const auto word = state == "DOWN"    ? Cluster::NodeWord::Down
                      : state == "DRAIN" ? Cluster::NodeWord::Drain
                                         : Cluster::NodeWord::Resume;
    const bool good = cluster_.set_node(NodeName(words["NodeName"]), word, words["Reason"]);
    return good ? output("", 0) : output("slurm_update error: Invalid node state specified\n", 1);
  }
  const JobId job = parse_job(words["JobId"]);
  Verdicts verdicts{{Verdict::Done, {}}};
  if (const auto minutes = words.find("TimeLimit"); minutes != words.end())
    verdicts = cluster_.set_limit(job.job, job.task, std::stoi(minutes->second) * 1min);
  if (const auto end = words.find("EndTime"); end != words.end())
    verdicts = cluster_.set_end(job.job, job.task,
                                time_.now() + std::stoi(end->second.substr(4)) * 1s);  // "now+S"
  const auto nodes = [&words](const char* key) {
    return expand_hostlist(words[key]).value_or(std::vector<NodeName>{});
  };
  if (words.contains("ExcNodeList"))
    verdicts = cluster_.set_exclusions(job.job, job.task, nodes("ExcNodeList"));
  if (words.contains("NodeList"))
    verdicts = cluster_.require_nodes(job.job, job.task, nodes("NodeList"));
  return said(verdicts, job.job);
}

os::CommandOutput SlurmText::act(const std::string& verb, const JobId& job) {
  if (verb == "hold" || verb == "release")
    return said(cluster_.hold(job.job, job.task, verb == "hold"), job.job);
  if (verb == "suspend" || verb == "resume")
    return said(cluster_.suspend(job.job, job.task, verb == "suspend"), job.job);
  if (verb == "requeue") return said(cluster_.requeue(job.job, job.task), job.job);
  return output(fmt::format("invalid keyword: {}\n", verb), 1);
}

// Of a job that is over or unknown: an error only when scancel has to look for it by its state.
os::CommandOutput SlurmText::scancel(const Argv& argv) {
  const JobId job = parse_job(argv.back());
  if (argv[1].starts_with("--signal=")) return cluster_.signal(job.job, job.task), output("", 0);
  const bool pending = std::find(argv.begin(), argv.end(), "--state=PENDING") != argv.end();
  if (cluster_.cancel(job.job, job.task, pending) || !pending) return output("", 0);
  return output(fmt::format("scancel: error: Kill job error on job id {}: Invalid job id "
                            "specified\n",
                            argv.back()),
                1);
}

// The agent program's answers, in the folder that it was given: a node that is gone gives none.
os::CommandOutput SlurmText::srun(const Argv& argv) {
  std::map<std::string, std::string> words;
  for (const std::string& word : argv)
    if (const auto equals = word.find('='); equals != std::string::npos)
      words[word.substr(0, equals)] = word.substr(equals + 1);
  const auto nodes = expand_hostlist(words["--nodelist"]).value_or(std::vector<NodeName>{});
  bool all = true;
  for (const NodeName& node : nodes) {
    all = all && cluster_.is_up(node);
    if (!cluster_.is_up(node)) continue;
    const std::uint64_t job = std::stoull(words["--jobid"]);
    const wire::ProbeAnswer answer{after(argv, "--question"), node.text, processes_on_(job, node),
                                   0};
    files_.content[after(argv, "--directory") + "/" + node.text + wire::kProbeEnd] =
        to_json_text(answer);
  }
  return all ? output("", 0) : output("srun: error: Timed out waiting for job step\n", 1);
}

os::CommandOutput SlurmText::nodes() {
  if (!shape_.tells_nodes) return output("sinfo: not permitted here\n", 1);
  os::CommandOutput shown;
  for (const auto& [name, node] : cluster_.nodes()) {
    const char* const state = node.drained                            ? "drained"
                              : node.told_down && node.reason.empty() ? "down*"
                              : node.told_down                        ? "down"
                                                                      : "idle";
    const std::string reason = !node.reason.empty() ? node.reason
                               : node.told_down     ? "Not responding"
                                                    : "none";
    shown.out += fmt::format("{}\x1f{}\x1f{}\n", name.text, state, reason);
  }
  return shown;
}

}  // namespace stoker::sim
