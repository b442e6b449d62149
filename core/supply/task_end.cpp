// The end of a task, taken into account once: what its agents said comes first, the scheduler's
// word second.
#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "core/alerts/alerting.hpp"
#include "core/nodes/accuse.hpp"
#include "core/recover/end.hpp"
#include "core/recover/recover.hpp"
#include "core/recover/rollback.hpp"
#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/supply/command.hpp"
#include "core/supply/script.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core::supply {
namespace {

// The nodes of the job that are known to be gone.
std::vector<NodeName> dead_nodes(const Turn& turn, const std::vector<NodeName>& nodes,
                                 const LiveGeneration* live) {
  std::vector<NodeName> dead;
  if (live != nullptr) dead = live->lost;
  for (const NodeName& node : nodes) {
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
std::string moved_wall(const Turn& turn, const Ending& ending) {
  constexpr Duration kEarly = 2min;
  const RunState& run = turn.r();
  const auto& step = turn.site.clock_step;
  if (clock_jumped(turn))
    return fmt::format("the clock of this host was set forward by {} {} ago",
                       format_duration(step->by), format_duration(turn.now() - step->at));
  const auto s = run.supply.find(ending.end.token);
  if (s == run.supply.end()) return "";
  const auto task = s->second.tasks.find(ending.task);
  if (task == s->second.tasks.end() || !task->second.ends_at) return "";
  const Duration early = *task->second.ends_at - turn.event.wall;
  if (early < kEarly) return "";
  return fmt::format(
      "{} before the end that the scheduler had reported: its clock was set, or the limit was cut",
      format_duration(early));
}

Failure failure_of(const Turn& turn, const Ending& ending, const std::vector<NodeName>& nodes,
                   const LiveGeneration* live) {
  const RunState& run = turn.r();
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
      failure.nodes = dead_nodes(turn, nodes, live);
      failure.strong = !has_agents(run.policy);  // nothing else keeps the next job from it
      failure.evidence =
          fmt::format("{} ended with {} {}: {}", job, state, where_text(run),
                      failure.nodes.empty() ? fmt::format("a node of {} died", nodes_text(nodes))
                                            : fmt::format("{} died", nodes_text(failure.nodes)));
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
      failure.evidence = ending.end.reason == "forgotten"
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
  if (began || end.exit_code != kRefused || ++run.refused < 2) return false;
  run.refused = 0;
  if (!run.exact_order) {
    hold(turn, {"checkpoint_refused",
                fmt::format("{} exited with {}, like the one before: every checkpoint is damaged",
                            job_text(end.job), exit_text(kRefused, 0)),
                "restore one, or move them away to begin from scratch",
                {}});
    return true;
  }
  give_up_rollback(turn,
                   fmt::format("{} exited with {}, like the one before: the checkpoint that order "
                               "{} goes back to is gone or damaged",
                               job_text(end.job), exit_text(kRefused, 0), run.exact_order->value));
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
    ++run.budget.spent;
    ++run.budget.without_progress;
    ++run.budget.restarts;
  }
  if (const auto loop = signals::crash_loop(run.budget, run.policy.recover))
    return hold(turn, {"crash_loop",
                       fmt::format("{}; {}", text, *loop),
                       "read the last lines of the job's log and fix the cause",
                       {}});
  update_exclusions(turn);
  const auto tell = [&] {
    raise(turn, {Severity::Warning, AlertKind::named(failure.kind), failure.evidence,
                 command_text(turn.name(), "why", "--last 5"), ""});
  };
  if (!has_agents(run.policy) && failure.kind == "node_fault") {
    if (failure.nodes.empty())
      return hold(
          turn,
          {"node_fault",
           fmt::format("{}; the node is unknown, and processes left there may still write", text),
           "find the lost node, exclude it, and check that its processes are gone",
           {}});
    const auto excluded = excluded_nodes(turn.site.ledger, turn.now());
    for (const NodeName& node : failure.nodes)
      if (std::find(excluded.begin(), excluded.end(), node) == excluded.end())
        return hold(turn, {"node_fault",
                           fmt::format("{}; {} cannot be excluded within recover.exclude.at_most, "
                                       "and processes left there may still write",
                                       text, node.text),
                           fmt::format("check that nothing runs on {} any more", node.text),
                           {}});
    if (script::wait_for_stillness(turn, fmt::format("{}; {}", text, budget_text(run))))
      return tell();
  }
  const bool more = std::any_of(run.supply.begin(), run.supply.end(),
                                [](const auto& entry) { return entry.second.waiting() > 0; });
  turn.go(training::Queued{}, Trigger::TaskEnds,
          fmt::format("{}{}; {}", text, more ? "; the next task continues" : "", budget_text(run)));
  tell();
  ensure(turn, "");
}

void after_stopping(Turn& turn, const training::Stopping& stopping, const std::string& over) {
  RunState& run = turn.r();
  switch (stopping.goal) {
    case training::Goal::Stop:
      turn.go(training::Stopped{stopping.by}, Trigger::Stops,
              fmt::format("{}; stopped {}{}", over, where_text(run),
                          stopping.by.empty() ? "" : fmt::format(", as {} asked", stopping.by)));
      cancel_waiting(turn);
      resolve_failures(turn);
      return;
    case training::Goal::Next:
      turn.go(training::Queued{}, Trigger::TaskEnds, fmt::format("{} {}", over, where_text(run)));
      return ensure(turn, "");
    case training::Goal::Hold: return;
  }
}

// How a script's job may end without a failure: finished, or cut short by the wall or by its own
// exit after it got on.
bool script_end(Turn& turn, const JobSeen& end, const std::optional<LiveGeneration>& live,
                const std::string& over) {
  RunState& run = turn.r();
  if (has_agents(run.policy)) return false;
  if (const auto why = script::finished(run, end)) {
    finish(turn, fmt::format("{}; {}", over, *why));
    return true;
  }
  const bool left = end.state == JobState::Timeout ||
                    (end.state == JobState::Completed && end.reason != "forgotten");
  if (!left || !live || !script::moved(run, *live)) return false;
  turn.go(training::Queued{}, Trigger::TaskEnds,
          fmt::format("{} {}, after {} new iterations; the training continues in the next task",
                      over, where_text(run), run.budget.best.value - live->best.value));
  ensure(turn, "");
  return true;
}

// A task that was cancelled by hand was one of a chain: others wait behind it, in its own array or
// in the next submission. Not so when what was behind it in its array was cancelled with it.
bool chain_goes_on(const RunState& run, const Submission& s, std::uint32_t task, bool more) {
  if (more) return true;
  const bool rest =
      s.rest_cancelled || std::any_of(s.tasks.begin(), s.tasks.end(), [&](const auto& entry) {
        return entry.first > task && entry.second.state == JobState::Cancelled;
      });
  return !rest && std::any_of(run.supply.begin(), run.supply.end(), [&](const auto& entry) {
    return entry.first != s.token && entry.second.live() && entry.second.waiting() > 0;
  });
}

// Ends that the training planned itself, reported by the agents after the job was over.
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
      turn.go(training::Queued{}, Trigger::TaskEnds,
              fmt::format("{}; the training had saved and exited {}", over, where_text(run)));
      ensure(turn, "");
      break;
    case EndKind::KillSwitch:
    case EndKind::ExitReached:
      turn.go(
          training::Stopped{"the training"}, Trigger::Stops,
          fmt::format("{}; the training exited with {}", over, exit_text(live->outcome->code, 0)));
      cancel_waiting(turn);
      break;
    case EndKind::Failed: return false;
  }
  return true;
}

// What trains is of a later task: the end of an earlier one, seen late, is nothing to it.
bool is_of_the_past(Turn& turn, const Submission& s, const Ending& ending) {
  const auto& live = turn.r().live;
  if (!live || live->goodbye_at) return false;
  const auto other = turn.r().supply.find(live->token);
  const bool past = live->token == s.token
                        ? live->job.task > ending.task
                        : other != turn.r().supply.end() && other->second.order > s.order;
  if (past)
    turn.say(fmt::format("{} is over ({}); generation {} of a later one is what trains",
                         job_text(ending.end.job), stoker::name_of(ending.end.state),
                         live->generation.value));
  return past;
}

// The generation is over with its task. Agents that had not said that they leave may go on all the
// same, which is remembered; those of a lost node do so for a while, and have been ordered to exit.
std::optional<LiveGeneration> take_live(Turn& turn, JobState end) {
  RunState& run = turn.r();
  std::optional<LiveGeneration> live = std::move(run.live);
  run.live.reset();
  run.over.reset();
  if (live && has_agents(run.policy) && !live->goodbye_at && !live->outcome &&
      end != JobState::NodeFail)
    run.over = Over{*live, turn.now(), run.progress.iteration};
  return live;
}

// The next task is to follow. Not so after an operator ordered it to exit: resumed since, its run
// continues no matter who ended it.
bool leaves_by_plan(const training::Stopping& stopping) {
  return stopping.goal == training::Goal::Next && stopping.by.empty();
}

}  // namespace

void supersede(Turn& turn, const Token& token) {
  RunState& run = turn.r();
  for (auto& [other, s] : run.supply) {
    const std::uint32_t task = running_task(s);
    if (other == token || task == 0) continue;
    if (std::holds_alternative<Running>(s.state)) {
      JobSeen end;
      end.token = other;
      end.job = JobId{s.job.job, task};
      end.state = JobState::Completed;
      turn.go(s, Ending{task, end, turn.now()}, SupplyTrigger::TaskOver);
    }
    s.tasks[task].state = JobState::Completed;
    turn.say(fmt::format("{} is over: a later job of the run has its claim",
                         job_text({s.job.job, task})));
    if (!run.live || !run.live->goodbye_at) ++run.budget.spent, ++run.budget.without_progress;
    if (s.waiting() > 0)
      turn.go(s, Pending{}, SupplyTrigger::Decided);
    else
      turn.go(s, Terminal{"superseded"}, SupplyTrigger::Exhausted);
    // It was ordered to exit so that the next one continues; the next one is not to exit.
    if (const auto* stopping = turn.in<training::Stopping>();
        stopping != nullptr && stopping->goal == training::Goal::Next)
      turn.go(training::Queued{}, Trigger::TaskEnds, "");
  }
}

void decide_end(Turn& turn, Submission& s) {
  RunState& run = turn.r();
  const Ending ending = std::get<Ending>(s.state);
  const bool asked = s.cancel_asked || ending.end.cancelled_by_us;
  const std::vector<NodeName> nodes = s.tasks[ending.task].nodes;
  s.tasks[ending.task].state = ending.end.state;
  const bool more = s.waiting() > 0 || next_runs(s, ending.task);
  if (more)
    turn.go(s, Pending{}, SupplyTrigger::Decided);
  else
    turn.go(s, Terminal{std::string(stoker::name_of(ending.end.state))}, SupplyTrigger::Exhausted);
  if (more) s.cancel_asked = false;
  if (is_of_the_past(turn, s, ending)) return;
  const bool chain = chain_goes_on(run, s, ending.task, more);
  if (ending.end.state == JobState::NodeFail && run.live && !run.live->goodbye_at) {
    run.control.level = wire::Level::LeaveNow;  // agents that only SLURM has lost, on any node
    write_control(turn, "the scheduler reports the job as ended: the remaining agents must exit");
  }
  const std::optional<LiveGeneration> live = take_live(turn, ending.end.state);
  run.save.reset();
  const std::string over =
      fmt::format("{} is over ({})", job_text(ending.end.job), stoker::name_of(ending.end.state));
  if (heed_known_end(turn)) return;
  if (const auto* stopping = turn.in<training::Stopping>()) {
    if (const auto why = script::finished(run, ending.end); why && !has_agents(run.policy))
      return finish(turn, fmt::format("{}; {}", over, *why));
    if (finished_by_file(run) ||
        (live && live->outcome && classify(run, *live->outcome) == EndKind::Finished))
      return finish(turn, finished_by_file(run)
                              ? fmt::format("{}; {} is there", over, run.policy.train.finished.file)
                              : fmt::format("{}; all ranks ended with 0", over));
    if (ending.end.state == JobState::Cancelled && !asked && !chain && leaves_by_plan(*stopping)) {
      turn.go(training::Queued{}, Trigger::TaskEnds, over);
      return decide_hand_cancel(turn, ending.end);
    }
    if (ending.end.state == JobState::Cancelled && !asked) warn_cancelled(turn, ending.end);
    const training::Stopping copy = *stopping;
    return after_stopping(turn, copy, over);
  }
  if (turn.in<training::Recovering>() != nullptr) {
    if (planned_end(turn, std::nullopt, over)) return;
    turn.go(training::Queued{}, Trigger::TaskEnds, over);
    return ensure(turn, "");
  }
  if (!turn.active()) {
    turn.say(over);
    if (turn.in<training::Queued>() != nullptr) ensure(turn, "");
    return;
  }
  const bool saved = live && live->outcome && classify(run, *live->outcome) == EndKind::Saved;
  const bool by_hand = ending.end.state == JobState::Cancelled && !asked;
  if (!(saved && by_hand) && planned_end(turn, live, over)) return;
  if (script_end(turn, ending.end, live, over)) return;
  const Failure failure = failure_of(turn, ending, nodes, live ? &*live : nullptr);
  if (ending.end.state == JobState::Cancelled && !asked && !chain) {
    turn.go(training::Queued{}, Trigger::TaskEnds, failure.evidence);
    JobSeen seen = ending.end;
    return decide_hand_cancel(turn, seen);
  }
  if (ending.end.state == JobState::Cancelled) {
    turn.go(training::Queued{}, Trigger::TaskEnds,
            fmt::format("{}; the next task continues", failure.evidence));
    if (!asked)
      raise(turn, {Severity::Warning, AlertKind::named(failure.kind), failure.evidence,
                   command_text(turn.name(), "why"), ""});
    return ensure(turn, "");
  }
  unexpected_end(turn, failure, ending.end, live.has_value());
}

}  // namespace stoker::core::supply
