// The task of a run whose ranks were at work (Starting, Training, Suspect) ended without an order
// of ours: finished, cut short as planned, cancelled by hand, or a failure.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/nodes/accuse.hpp"
#include "core/recover/recover.hpp"
#include "core/recover/rollback.hpp"
#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/supply/command.hpp"
#include "core/supply/script.hpp"
#include "core/supply/supply.hpp"
#include "core/training/reactions.hpp"
#include "wire/exit_code.hpp"

namespace stoker::core::training {
namespace {

// The nodes of the job that are known to be gone.
std::vector<NodeName> dead_nodes(const Turn& turn, const TaskEnd& task) {
  std::vector<NodeName> dead;
  if (task.live) dead = task.live->lost;
  for (const NodeName& node : task.nodes) {
    const auto entry = turn.site.ledger.nodes.find(node);
    if (entry != turn.site.ledger.nodes.end() && !entry->second.usable) dead.push_back(node);
  }
  std::sort(dead.begin(), dead.end());
  dead.erase(std::unique(dead.begin(), dead.end()), dead.end());
  return dead;
}

// Schedulers count the time limit by the wall clock: one that is set forward ends a job at once.
bool clock_jumped(const Turn& turn) {
  const auto& step = turn.site.clock_step;
  return step && step->by > 0ns && turn.now() - step->at < 10min;
}

// Why a task met its wall although it had time left; "" = it had none.
std::string moved_wall(const Turn& turn, const supply::Ending& ending) {
  constexpr Duration kEarly = 2min;
  const RunState& run = turn.r();
  const auto& step = turn.site.clock_step;
  if (clock_jumped(turn))
    return fmt::format("the clock of this host was set forward by {} {} ago",
                       format_duration(step->by), format_duration(turn.now() - step->at));
  const auto s = run.jobs.supply.find(ending.end.token);
  if (s == run.jobs.supply.end()) return "";
  const auto task = s->second.tasks.find(ending.task);
  if (task == s->second.tasks.end() || !task->second.ends_at) return "";
  const Duration early = *task->second.ends_at - turn.event.wall;
  if (early < kEarly) return "";
  return fmt::format(
      "{} before the end that the scheduler had reported: its clock was set, or the limit was cut",
      format_duration(early));
}

std::string who_died(const std::vector<NodeName>& dead, const std::vector<NodeName>& of) {
  if (!dead.empty()) return nodes_text(dead) + " died";
  return of.empty() ? "one of its nodes died" : fmt::format("a node of {} died", nodes_text(of));
}

Failure failure_of(const Turn& turn, const TaskEnd& task) {
  const RunState& run = turn.r();
  const supply::Ending& ending = task.ending;
  const std::string job = job_text(ending.end.job);
  const std::string state(stoker::name_of(ending.end.state));
  const std::string exit = exit_text(ending.end.exit_code, ending.end.signal);
  Failure failure;
  failure.kind = "job_failed";
  failure.inside = false;
  switch (ending.end.state) {
    case JobState::NodeFail:
    case JobState::BootFail:
      failure.kind = "node_fault";
      failure.nodes = dead_nodes(turn, task);
      failure.strong = !has_agents(run.policy);  // nothing else keeps the next job from it
      failure.evidence = fmt::format("{} ended with {} {}: {}", job, state, where_text(run),
                                     who_died(failure.nodes, task.nodes));
      break;
    case JobState::Timeout:
      failure.evidence =
          fmt::format("{} reached its time limit {} before it exited", job, where_text(run));
      if (const std::string why = moved_wall(turn, ending); !why.empty()) {
        failure.evidence += "; " + why;
        failure.free = clock_jumped(turn);
      }
      break;
    case JobState::Preempted:
      failure.kind = "preempted";
      failure.free = true;
      failure.evidence = fmt::format("{} was preempted {}", job, where_text(run));
      break;
    case JobState::Completed:
      failure.evidence = ending.end.forgotten
                             ? fmt::format(
                                   "{} is gone: the scheduler does not know it any more and its "
                                   "agents are silent, {}",
                                   job, where_text(run))
                             : fmt::format(
                                   "{} says COMPLETED with {}, which does not prove that the "
                                   "training finished, {}",
                                   job, exit, where_text(run));
      break;
    case JobState::Cancelled:
      failure.kind = "cancelled_by_hand";
      failure.evidence =
          fmt::format("{} was cancelled{} {}", job, by_whom(ending.end), where_text(run));
      break;
    default:
      failure.signal =
          ending.end.signal != 0 ? ending.end.signal : wire::signal_of(ending.end.exit_code);
      failure.evidence = fmt::format("{} ended with {}, {}, {}", job, state, exit, where_text(run));
      break;
  }
  return failure;
}

// The agents of two starts in a row left because the checkpoint of a rollback, or each that there
// is, is damaged or gone: no third one finds it.
bool no_checkpoint(Turn& turn, const JobSeen& end, bool began) {
  constexpr int kRefused = 21;  // worker/agent: run.hpp
  RunState& run = turn.r();
  if (began || end.exit_code != kRefused || ++run.recovery.refused < 2) return false;
  run.recovery.refused = 0;
  if (!run.asked.exact_order) {
    hold(turn, {"checkpoint_refused",
                fmt::format("{} exited with {}, like the one before: every checkpoint is damaged",
                            job_text(end.job), exit_text(kRefused, 0)),
                "restore one, or move them away to begin from scratch",
                {}});
    return true;
  }
  give_up_rollback(
      turn, fmt::format("{} exited with {}, like the one before: the checkpoint that order "
                        "{} goes back to is gone or damaged",
                        job_text(end.job), exit_text(kRefused, 0), run.asked.exact_order->value));
  return true;
}

// A failed end of a task that was not requested; `began`: a generation of it had reported.
void unexpected_end(Turn& turn, const Failure& failure, const JobSeen& end, bool began) {
  RunState& run = turn.r();
  if (no_checkpoint(turn, end, began)) return;
  std::string text = failure.evidence;
  for (const NodeName& node : failure.nodes)
    text += "; " + accuse_node(turn, node, evidence_of(turn, failure.kind, failure.evidence),
                               failure.strong);
  note_incident(turn, failure.kind);
  if (!failure.free) {
    ++run.recovery.budget.spent;
    ++run.recovery.budget.without_progress;
    ++run.recovery.budget.restarts;
  }
  if (const auto loop = signals::crash_loop(run.recovery.budget, run.policy.recover))
    return hold(turn, {"crash_loop",
                       fmt::format("{}; {}", text, *loop),
                       "read the last lines of the job's log and fix the cause",
                       {}});
  supply::update_exclusions(turn);
  const auto tell = [&] {
    raise(turn, {Severity::Warning, AlertKind::named(failure.kind), failure.evidence,
                 command_text(turn.name(), "why", "--last 5"), ""});
  };
  if (!has_agents(run.policy) && failure.kind == "node_fault") {
    const auto ask = [&](const std::string& why, const std::string& what) {
      run.jobs.may_write = false;  // the operator sees to it
      hold(turn, {"node_fault", fmt::format("{}; {}", text, why), what, {}});
    };
    if (failure.nodes.empty())
      return ask("the node is unknown, and processes left there may still write",
                 "find the lost node, exclude it, and check that its processes are gone");
    const auto excluded = excluded_nodes(turn.site.ledger, turn.now());
    for (const NodeName& node : failure.nodes)
      if (std::find(excluded.begin(), excluded.end(), node) == excluded.end())
        return ask(fmt::format("{} cannot be excluded within recover.exclude.at_most, and "
                               "processes left there may still write",
                               node.text),
                   fmt::format("check that nothing runs on {} any more", node.text));
    if (script::wait_for_stillness(turn, Trigger::TaskEnds,
                                   fmt::format("{}; {}", text, budget_text(run)),
                                   "the lost node's processes"))
      return tell();
  }
  const bool more = std::any_of(run.jobs.supply.begin(), run.jobs.supply.end(),
                                [](const auto& entry) { return entry.second.waiting() > 0; });
  turn.go(Queued{}, Trigger::TaskEnds,
          fmt::format("{}{}; {}", text, more ? "; the next task continues" : "", budget_text(run)));
  tell();
  supply::ensure(turn, "");
}

// A script's job was cut short by the wall or by its own exit after it got on: no failure.
bool cut_short(Turn& turn, const JobSeen& end, const std::optional<LiveGeneration>& live,
               const std::string& over) {
  RunState& run = turn.r();
  if (has_agents(run.policy)) return false;
  const bool left =
      end.state == JobState::Timeout || (end.state == JobState::Completed && !end.forgotten);
  if (!left || !live || !script::moved(run, *live)) return false;
  turn.go(Queued{}, Trigger::TaskEnds,
          fmt::format("{} {}, after {} new iterations; the training continues in the next task",
                      over, where_text(run), run.recovery.budget.best.value - live->best.value));
  supply::ensure(turn, "");
  return true;
}

}  // namespace

void lose_task(Turn& turn, const TaskEnd& end) {
  const bool saved =
      end.live && end.live->outcome && classify(turn.r(), *end.live->outcome) == EndKind::Saved;
  if (!(saved && end.is_by_hand()) && planned_end(turn, end.live, end.sentence)) return;
  if (finished_script(turn, end) || cut_short(turn, end.seen(), end.live, end.sentence)) return;
  const Failure failure = failure_of(turn, end);
  if (end.is_by_hand() && !end.chain) {
    turn.go(Queued{}, Trigger::TaskEnds, failure.evidence);
    return supply::decide_hand_cancel(turn, end.seen());
  }
  if (end.seen().state == JobState::Cancelled) {
    turn.go(Queued{}, Trigger::TaskEnds,
            fmt::format("{}; the next task continues", failure.evidence));
    if (end.is_by_hand())
      raise(turn, {Severity::Warning, AlertKind::named(failure.kind), failure.evidence,
                   command_text(turn.name(), "why"), ""});
    return supply::ensure(turn, "");
  }
  unexpected_end(turn, failure, end.seen(), end.live.has_value());
}

bool planned_end(Turn& turn, const std::optional<LiveGeneration>& live, const std::string& over) {
  RunState& run = turn.r();
  if (finished_by_file(turn.r())) {
    finish(turn, fmt::format("{}; {} is there", over, turn.r().policy.train.finished.file));
    return true;
  }
  if (!live || !live->outcome) return false;
  switch (classify(run, *live->outcome)) {
    case EndKind::Finished: finish(turn, fmt::format("{}; all ranks ended with 0", over)); break;
    case EndKind::Saved:
      turn.go(Queued{}, Trigger::TaskEnds,
              fmt::format("{}; the training had saved and exited {}", over, where_text(run)));
      supply::ensure(turn, "");
      break;
    case EndKind::Obeyed:
      turn.go(Queued{}, Trigger::TaskEnds,
              fmt::format("{}; the ranks had exited without saving {}, as their agents ordered",
                          over, where_text(run)));
      supply::ensure(turn, "");
      break;
    case EndKind::KillSwitch:
    case EndKind::ExitReached:
      turn.go(
          Stopped{"the training"}, Trigger::Stops,
          fmt::format("{}; the training exited with {}", over, exit_text(live->outcome->code, 0)));
      cancel_waiting(turn);
      break;
    case EndKind::Failed: return false;
  }
  return true;
}

bool finished_script(Turn& turn, const TaskEnd& end) {
  RunState& run = turn.r();
  if (has_agents(run.policy)) return false;
  const auto why = script::finished(run, end.seen());
  if (!why) return false;
  Iteration& reached = run.health.progress.iteration;
  if (reached.value == 0) reached = run.recovery.budget.best;  // it had nothing left to do
  finish(turn, fmt::format("{}; {}", end.sentence, *why));
  return true;
}

}  // namespace stoker::core::training
