// Probing a job: what SLURM itself still has of it, and, with `srun --overlap`, what is still
// running its nodes. Each part that is not answered is left out; nothing is concluded here.
#include <algorithm>
#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "slurm/client_call.hpp"
#include "slurm/job_steps.hpp"
#include "slurm/slurm_scheduler.hpp"
#include "wire/probe_answer.hpp"

namespace stoker::slurm {
namespace {

constexpr std::size_t kNamed = 16;
constexpr std::size_t kAnswerBytes = 4096;

// The answer that a node left for this very question; false: none.
bool read_answer(core::Files& files, const std::string& path, const std::string& question,
                 core::JobProbed& out) {
  const auto text = files.read(path, kAnswerBytes);
  if (!text) return false;
  const auto answer = from_json_text<wire::ProbeAnswer>(*text, path);
  if (!answer || answer->question != question) return false;
  ++out.answered;
  out.processes += answer->processes;
  if (answer->stacks > 0) out.stacks = path;
  return true;
}

void add_reason(core::JobProbed& out, const std::string& why) {
  out.why += (out.why.empty() ? "" : "; ") + why.substr(0, 300);
}

}  // namespace

// Two programs must agree about what is there; a step that one of them shows is there.
Status SlurmScheduler::look_at_steps(const QueueRow& row, core::JobProbed& out) {
  const JobId job = row.id;
  STOKER_TRY(listed, controller_->question(steps_command(job)));
  if (!listed.status.ok()) return fail("squeue -s failed: " + what_it_said(listed), "squeue");
  STOKER_TRY(steps, parse_steps(listed.out));
  STOKER_TRY(shown, controller_->question({"scontrol", "-o", "show", "step", job.text()}));
  const bool none = shown.err.find("not found") != std::string::npos;  // "Job step N not found"
  if (!shown.status.ok() && !none)
    return fail("scontrol show step failed: " + what_it_said(shown), "scontrol");
  STOKER_TRY(records, parse_step_records(none ? std::string_view() : shown.out));
  if (steps.empty() != records.empty())
    return fail("squeue and scontrol do not agree about its steps", job.text());
  steps.insert(steps.end(), records.begin(), records.end());
  for (const JobStep& step : steps) {
    if (step.job != job || step.name == kProbeName || step.step == "extern") continue;
    if (step.step == "batch") {
      const auto& nodes = row.nodes;
      out.batch_left = out.batch_left ||
                       (!step.nodes.empty() && !nodes.empty() &&
                        std::find(nodes.begin(), nodes.end(), step.nodes.front()) == nodes.end());
      continue;
    }
    if (std::find(out.steps.begin(), out.steps.end(), step.text()) == out.steps.end() &&
        out.steps.size() < kNamed)
      out.steps.push_back(step.text());
  }
  out.told = true;
  return ok();
}

// The agent program in a step of the job's own, one a node. It leaves its answers as files: those
// of the nodes that answer are there although srun waits for one that does not.
void SlurmScheduler::look_inside(const core::ProbeRequest& request, const QueueRow& row,
                                 core::JobProbed& out) {
  std::vector<NodeName> nodes;
  for (const NodeName& node : request.probe.nodes)
    if (std::find(row.nodes.begin(), row.nodes.end(), node) != row.nodes.end())
      nodes.push_back(node);
  if (nodes.empty() || request.folder.empty() || request.agent_command.empty()) return;
  const std::string count = std::to_string(nodes.size());
  const std::string asked = std::to_string(options_.wall().time_since_epoch().count());
  std::vector<std::string> argv{"srun",
                                "--overlap",
                                fmt::format("--jobid={}", row.raw_id),
                                "--nodelist=" + compress_hostlist(nodes),
                                "--nodes=" + count,
                                "--ntasks=" + count,
                                "--ntasks-per-node=1",
                                "--gres=none",
                                "--mem=0",
                                "--export=ALL",
                                "--chdir=/",
                                fmt::format("--job-name={}", kProbeName),
                                "--kill-on-bad-exit=0"};
  argv.insert(argv.end(), request.agent_command.begin(), request.agent_command.end());
  for (const std::string& word :
       {std::string("stacks"), std::string("--job"), std::to_string(row.raw_id),
        std::string("--directory"), request.folder, std::string("--question"), asked})
    argv.push_back(word);
  const auto output = controller_->act(std::move(argv));
  if (!output)
    add_reason(out, "srun: " + output.error().message());
  else if (!output->status.ok())
    add_reason(out, "srun: " + what_it_said(*output));
  out.asked = static_cast<std::uint32_t>(nodes.size());
  for (const NodeName& node : nodes)
    if (!read_answer(files_, request.folder + "/" + node.text + wire::kProbeEnd, asked, out) &&
        out.mute.size() < kNamed)
      out.mute.push_back(node);
}

core::JobProbed SlurmScheduler::probe(const core::ProbeRequest& request) {
  core::JobProbed out;
  out.token = request.probe.token;
  out.job = request.probe.job;
  const auto rows = queue({}, out.job.job);
  if (!rows) {
    add_reason(out, rows.error().message());
    return out;
  }
  const auto found = std::find_if(rows->begin(), rows->end(), [&](const QueueRow& row) {
    const bool meant = row.id == out.job || (row.id.task == 0 && row.id.job == out.job.job);
    return meant && token_of(row) == out.token && row.state == core::JobState::Running;
  });
  if (found == rows->end()) {
    add_reason(out, "squeue does not show it running");
    return out;
  }
  if (is_suspended(found->id)) {
    add_reason(out, "scontrol shows it suspended");
    const std::scoped_lock lock(mutex_);
    doubted_.insert(found->id);
    return out;
  }
  if (const Status told = look_at_steps(*found, out); !told)
    add_reason(out, told.error().message());
  look_inside(request, *found, out);
  return out;
}

}  // namespace stoker::slurm
