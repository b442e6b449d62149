// A generation of the run: from the claim of its task to the goodbye of its lead, and the agents of
// its nodes in between.
#include <algorithm>
#include <fmt/format.h>

#include "core/handlers.hpp"
#include "core/recover/end.hpp"
#include "core/recover/recover.hpp"
#include "core/recover/rollback.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/supply.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core {
namespace {

bool task_is_over(const RunState& run, const wire::GenerationStarted& e) {
  const auto s = run.jobs.supply.find(e.token);
  if (s == run.jobs.supply.end()) return false;
  if (std::holds_alternative<supply::Ending>(s->second.state)) return false;
  const auto task = s->second.tasks.find(e.job.task);
  return task != s->second.tasks.end() && is_terminal(task->second.state);
}

// Says which files are not what the generation before had.
void note_digests(Turn& turn, const std::map<std::string, std::string>& digests) {
  if (digests.empty()) return;
  turn.r().recovery.trail.check.changed = false;
  for (const auto& [path, digest] : digests)
    if (const auto before = turn.r().conditions.digests.find(path);
        before != turn.r().conditions.digests.end() && before->second != digest) {
      turn.r().recovery.trail.check.changed = true;
      turn.say(fmt::format("{} has changed since the generation before (XXH3 {}, was {})", path,
                           digest.substr(0, 8), before->second.substr(0, 8)));
    }
  turn.r().conditions.digests = digests;
}

}  // namespace

void on_generation_started(Turn& turn, const wire::GenerationStarted& e) {
  RunState& run = turn.r();
  if (task_is_over(run, e))
    return turn.say(fmt::format("generation {} of {} reported only after its task was over",
                                e.generation.value, job_text(e.job)));
  // Its claim proves that its task runs, and so that the one before is over: agents are often heard
  // before the scheduler is asked again.
  supply::supersede(turn, e.token);
  supply::on_claimed(turn, e);
  LiveGeneration live;
  live.generation = e.generation;
  live.parent = e.parent;
  live.token = e.token;
  live.job = e.job;
  live.order = e.order;
  live.nodes = e.nodes;
  if (turn.site.ledger.since == Instant{}) turn.site.ledger.since = turn.now();
  turn.site.ledger.at_least =
      std::max(turn.site.ledger.at_least, static_cast<std::uint32_t>(e.nodes.size()));
  live.loaded = e.iteration;
  live.attempt_at = turn.now();
  run.live = live;
  run.jobs.over.reset();
  run.newest = std::max(run.newest, e.generation);
  set_level(run, wire::Level::Run);
  if (e.asked) {  // what was asked of a generation that is gone must not be asked of this one
    run.asked.control.save = e.asked->save;
    run.asked.control.stacks = e.asked->stacks;
    run.asked.control.restart = e.asked->restart;
    run.asked.save.reset();
  }
  run.asked.control.exclude.clear();
  const bool had_known = !run.health.checkpoint.known.empty();
  std::erase_if(run.health.checkpoint.known,
                [&](const auto& known) { return known.first > e.iteration.value; });
  if (had_known)  // what is left of them is of this ancestry
    run.recovery.trail.saved = Iteration(
        run.health.checkpoint.known.empty() ? 0 : run.health.checkpoint.known.rbegin()->first);
  turn.say(fmt::format("generation {} of {} started on {}, {}", e.generation.value, job_text(e.job),
                       nodes_text(e.nodes),
                       e.iteration.value == 0
                           ? std::string("from scratch")
                           : fmt::format("resuming at iteration {}", e.iteration.value)));
  note_digests(turn, e.digests);
  switch (training::reactions_of(run).task_runs(run)) {
    case training::RunningTask::Awaited:
      turn.go(training::Starting{turn.now()}, Trigger::JobRuns, "");
      break;
    case training::RunningTask::Known: training::reactions_of(run).generation_starts(turn); break;
    case training::RunningTask::Unwanted:
      set_level(run, wire::Level::LeaveNow);
      turn.say(fmt::format("the run is {}: it must exit", state_name(run.training)));
      break;
  }
  write_control(turn, fmt::format("generation {} is known", e.generation.value));
  heed_older_orders(turn);
}

void on_agent_joined(Turn& turn, const wire::AgentJoined& e) {
  ++turn.r().live->joined;
  std::erase(turn.r().live->lost, e.node);
}

void on_agent_lost(Turn& turn, const wire::AgentLost& e) {
  RunState& run = turn.r();
  LiveGeneration& live = *run.live;
  if (std::find(live.lost.begin(), live.lost.end(), e.node) == live.lost.end())
    live.lost.push_back(e.node);
  const auto& used = live.attempt_nodes;
  const bool in_use = used.empty() || std::find(used.begin(), used.end(), e.node) != used.end();
  const std::string evidence =
      fmt::format("the agent on {} is gone ({}) {}", e.node.text, e.why, where_text(run));
  if (!in_use || live.goodbye_at) return turn.say(evidence);
  Failure failure;
  failure.kind = "node_fault";
  failure.evidence = evidence;
  failure.nodes = {e.node};
  failure.lost = {e.node};
  training::reactions_of(run).agent_lost(turn, failure);
}

void on_goodbye(Turn& turn, const wire::Goodbye& e) {
  RunState& run = turn.r();
  if (!e.lead) return turn.say(fmt::format("the agent on {} left ({})", e.node.text, e.why));
  run.live->goodbye_at = turn.now();
  run.live->goodbye_code = e.exit_code;
  turn.say(fmt::format("generation {} is over ({}), its lead exited with code {}",
                       run.live->generation.value, e.why, e.exit_code));
  if (e.end) heed_end(turn, *e.end);
  if (supply::Submission* s = running_submission(run);
      s != nullptr && std::holds_alternative<supply::Ending>(s->state))
    supply::decide_end(turn, *s);
}

}  // namespace stoker::core
