// Probes of a job that may be in limbo, and what their answers mean.
#include "core/signals/probe.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/supply/command.hpp"
#include "core/supply/scheduler_traits.hpp"

namespace stoker::core::probe {
namespace {

constexpr Duration kEvery = 60s;  // from one probe to the next
constexpr Duration kAgain = 30s;  // after a probe of a script that returned nothing
constexpr std::uint32_t kScriptProbes = 2;
constexpr Duration kGoodbyeProves =
    10min;  // all agents exited and said so: even without SLURM's word

// The nodes that can be asked from inside: a dead one would only make the others' answers late.
std::vector<NodeName> nodes_to_ask(const Turn& turn, const supply::Submission& s) {
  std::vector<NodeName> nodes;
  const auto task = s.tasks.find(running_task(s));
  if (task == s.tasks.end()) return nodes;
  for (const NodeName& node : task->second.nodes) {
    const auto entry = turn.site.ledger.nodes.find(node);
    if (entry == turn.site.ledger.nodes.end() || entry->second.usable) nodes.push_back(node);
  }
  return nodes;
}

// Growing: the controller is asked three questions a probe.
Duration pause_of(const LiveGeneration& live) {
  return kEvery * std::clamp<std::uint32_t>(live.probes, 1, 5);
}

std::string steps_text(const JobProbed& probed) {
  std::string text;
  for (const std::string& step : probed.steps) text += (text.empty() ? "" : ", ") + step;
  return text;
}

std::string inside_text(const JobProbed& probed) {
  std::string text;
  if (probed.answered > 0)
    text = fmt::format("{} process{} on {}", probed.processes, probed.processes == 1 ? "" : "es",
                       count_text(probed.answered, "node"));
  if (!probed.mute.empty())
    text += fmt::format("{}no answer from {}", text.empty() ? "" : ", ", nodes_text(probed.mute));
  if (!probed.stacks.empty()) text += fmt::format(", stacks in {}", probed.stacks);
  return text;
}

// What SLURM says that proves that nothing of the job is left that it could wait for; "" = nothing.
std::string proof_of(const JobProbed& probed) {
  if (!probed.told) return "";
  if (probed.batch_left) return "SLURM has taken the node of its batch script out of the job";
  if (probed.steps.empty()) return "SLURM lists no more steps of it";
  return "";
}

void limbo(Turn& turn, const std::string& evidence) {
  Failure failure;
  failure.kind = "limbo";
  failure.inside = false;
  failure.evidence = evidence;
  recover(turn, failure);
}

std::string without_proof(const JobProbed& probed) {
  return probed.told
             ? fmt::format("SLURM still has {}", steps_text(probed))
             : fmt::format("SLURM did not list its steps ({}), which proves nothing", probed.why);
}

void on_agents_probed(Turn& turn, training::Suspect& suspect, const JobProbed& probed) {
  const std::string job = job_text(probed.job);
  if (const std::string proof = proof_of(probed); !proof.empty())
    return limbo(turn, fmt::format("{}; for {}, {}: limbo", suspect.evidence, job, proof));
  const Duration pause = pause_of(*turn.r().live);
  suspect.act_at = turn.now() + pause;
  turn.say(fmt::format("{} of {}; asking again in {}", without_proof(probed), job,
                       format_duration(pause)));
}

void on_script_probed(Turn& turn, training::Suspect& suspect, const JobProbed& probed) {
  const bool all = probed.asked > 0 && probed.answered == probed.asked;
  const std::string proof = proof_of(probed);
  if (!proof.empty() && all && probed.processes == 0)
    return limbo(turn,
                 fmt::format("{}; {} has no process on its {}, and {}: limbo", suspect.evidence,
                             job_text(probed.job), count_text(probed.answered, "node"), proof));
  const std::string found = inside_text(probed);
  if (probed.answered == 0 && turn.r().live->probes < kScriptProbes) {
    suspect.act_at = turn.now() + kAgain;
    return turn.say(fmt::format("the probe of {} returned nothing ({}); trying again in {}",
                                job_text(probed.job), probed.why, format_duration(kAgain)));
  }
  if (probed.answered == 0)
    suspect.evidence += "; its probes returned nothing, so only its silence counts";
  else
    suspect.evidence += fmt::format("; {} has {}{}", job_text(probed.job), found,
                                    proof.empty() ? "" : ", but " + proof);
  suspect.act_at = turn.now();
  act_on_suspicion(turn);
}

void on_goodbye_probed(Turn& turn, const JobProbed& probed) {
  LiveGeneration& live = *turn.r().live;
  const std::string left =
      fmt::format("the agents exited {} ago with exit code {}, but {} is still running",
                  format_duration(turn.now() - *live.goodbye_at), live.goodbye_code.value_or(0),
                  job_text(live.job));
  if (const std::string proof = proof_of(probed); !proof.empty())
    return limbo(turn, fmt::format("{}, and {}", left, proof));
  const Duration pause = pause_of(live);
  live.probe_at = turn.now() + pause;
  turn.say(fmt::format("{}; {}; asking again in {}", left, without_proof(probed),
                       format_duration(pause)));
}

}  // namespace

bool is_wanted(const RunPolicy& policy) {
  return traits_of(policy.scheduler.kind).probes;
}

void ask(Turn& turn) {
  RunState& run = turn.r();
  const supply::Submission* s = running_submission(run);
  if (s == nullptr || !run.live) return;
  ProbeJob probe{s->token, JobId{s->job.job, running_task(*s)}, {}};
  if (!has_agents(run.policy)) probe.nodes = nodes_to_ask(turn, *s);
  ++run.live->probes;
  turn.act(std::move(probe));
}

void on_silence_due(Turn& turn) {
  auto& suspect = *turn.in<training::Suspect>();
  const Duration silent = turn.now() - turn.r().since;
  const Duration most =
      std::max(turn.r().policy.hang.ceiling, signals::lead_patience(turn.r().policy.hang));
  // Where SLURM has not answered all that time, it is asked once more: it may have suspended it.
  const bool asked = turn.r().live && turn.r().live->probes > 0;
  if (!turn.r().live || (silent >= most && asked)) return act_on_suspicion(turn);
  suspect.act_at = turn.now() + kAnswerWithin;
  turn.say("asking SLURM which steps of the job remain");
  ask(turn);
}

void on_script_silence_due(Turn& turn) {
  auto& suspect = *turn.in<training::Suspect>();
  if (!turn.r().live || turn.r().live->probes >= kScriptProbes) return act_on_suspicion(turn);
  suspect.act_at = turn.now() + kAnswerWithin;
  turn.say("probing its job again");
  ask(turn);
}

Instant limbo_at(const LiveGeneration& live) {
  return std::max(*live.goodbye_at + signals::kLimbo, live.probe_at);
}

void on_limbo_due(Turn& turn) {
  RunState& run = turn.r();
  LiveGeneration& live = *run.live;
  if (!is_wanted(run.policy) || *live.goodbye_at + kGoodbyeProves <= turn.now())
    return limbo(turn,
                 fmt::format("the agents exited {} ago with exit code {}, but {} is still running",
                             format_duration(turn.now() - *live.goodbye_at),
                             live.goodbye_code.value_or(0), job_text(live.job)));
  live.probe_at = turn.now() + kAnswerWithin;
  turn.say(
      "the agents exited and the job is still running; asking SLURM which of its steps remain");
  ask(turn);
}

}  // namespace stoker::core::probe

namespace stoker::core {

void on_job_probed(Turn& turn, const JobProbed& probed) {
  RunState& run = turn.r();
  const supply::Submission* s = running_submission(run);
  const bool ours = run.live && s != nullptr && s->token == probed.token &&
                    JobId{s->job.job, running_task(*s)} == probed.job;
  if (!ours)
    return turn.say(fmt::format("a probe's answer about {}, which is over", job_text(probed.job)));
  auto* suspect = turn.in<training::Suspect>();
  if (suspect != nullptr && suspect->symptom == training::Symptom::LeadSilent)
    return probe::on_agents_probed(turn, *suspect, probed);
  if (suspect != nullptr && !has_agents(run.policy))
    return probe::on_script_probed(turn, *suspect, probed);
  const bool watched =
      turn.kind() == TrainingKind::Training || turn.kind() == TrainingKind::Starting;
  if (watched && run.live->goodbye_at) return probe::on_goodbye_probed(turn, probed);
  const std::string found = probe::inside_text(probed);
  turn.say(fmt::format("the probe of {}: {}", job_text(probed.job),
                       found.empty() ? probe::without_proof(probed) : found));
}

}  // namespace stoker::core
