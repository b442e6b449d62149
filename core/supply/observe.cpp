// What the scheduler reports about our jobs. Present beats proven terminal beats unknown; silence
// never ends a job.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/pending_reason.hpp"
#include "core/supply/scheduler_traits.hpp"
#include "core/supply/script.hpp"
#include "core/supply/supply.hpp"
#include "core/supply/suspended.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core::supply {
namespace {

Duration last_words(const RunState& run) {
  return traits_of(run.policy.scheduler.kind).last_words;
}

// How long they are awaited. A script whose logs have reported a fatal error has only lines that
// were read but not yet reported: they come before the next Tick.
Duration wait_for_words(const RunState& run) {
  const bool error_reported =
      !has_agents(run.policy) && run.recovery.verdict && run.recovery.verdict->fatal;
  return error_reported ? std::min<Duration>(1s, last_words(run)) : last_words(run);
}

bool is_ours(const Turn& turn, const JobSeen& seen) {
  return turn.r().jobs.supply.contains(seen.token) ||
         seen.token.text.starts_with(turn.name().text + "-");
}

// The submission that a job belongs to; a job with our name's token that was not requested here (a
// lost journal) is adopted.
Submission* find_or_adopt(Turn& turn, const JobSeen& seen) {
  RunState& run = turn.r();
  if (const auto found = run.jobs.supply.find(seen.token); found != run.jobs.supply.end())
    return &found->second;
  if (!is_ours(turn, seen) || is_terminal(seen.state)) return nullptr;
  Submission s;
  s.token = seen.token;
  s.array_tasks = std::max(run.policy.scheduler.array_tasks, seen.job.task);
  s.nodes = static_cast<std::uint32_t>(std::max<std::size_t>(1, seen.nodes.size()));
  s.job = JobId{seen.job.job, 0};
  s.state = Pending{};
  s.intended_at = turn.now();
  turn.say(fmt::format("{} carries a token of this run but is not in this journal; adopting it",
                       job_text(seen.job)));
  return &run.jobs.supply.emplace(s.token, std::move(s)).first->second;
}

// A job of a submission that was given up, or of none that is known, while another is live: one of
// the two goes. A running one stays; else the one that is known.
bool cancel_stranger(Turn& turn, const JobSeen& seen) {
  RunState& run = turn.r();
  const auto own = run.jobs.supply.find(seen.token);
  if (own != run.jobs.supply.end() && own->second.live()) return false;
  if (!is_ours(turn, seen)) return false;
  if (is_terminal(seen.state)) {
    resolve(turn, "late_job");
    return false;
  }
  const auto other = std::find_if(
      run.jobs.supply.begin(), run.jobs.supply.end(),
      [&](const auto& entry) { return entry.first != seen.token && entry.second.live(); });
  if (other == run.jobs.supply.end()) return false;
  if (seen.state == JobState::Running && running_submission(run) == nullptr) {
    turn.say(fmt::format(
        "{} of the submission {} appeared late and runs; its waiting tasks are cancelled",
        job_text(seen.job), seen.token.text));
    cancel_waiting(turn);
    return false;
  }
  turn.say(fmt::format("{} of the submission {} appeared late while {} is live; cancelling it",
                       job_text(seen.job), seen.token.text, other->second.token.text));
  turn.act(Cancel{seen.token, JobId{seen.job.job, 0}, true, false});
  raise(turn, {Severity::Warning, "late_job",
               fmt::format("a late job of {} was cancelled", turn.name().text),
               command_text(turn.name(), "why"), ""});
  return true;
}

// A task must not run in this state: ordered to exit before any rank starts, then cancelled.
void burn(Turn& turn, Submission& s, const JobSeen& seen) {
  if (s.cancel_asked && is_terminal(seen.state)) return;
  turn.say(fmt::format("{} runs although the run is {}; cancelling it", job_text(seen.job),
                       turn.r().asked.paused && turn.kind() == TrainingKind::Idle
                           ? "paused"
                           : state_name(turn.r().training)));
  cancel_all(turn);
}

// SLURM lets the next task of an array run although the one before has not ended, when that one has
// lost a node (22.05.8, a slurmd that is away). Agents decide which of the two owns the run: while
// the elder's speak, the newcomer's leave by themselves; when they have left, the elder is an empty
// shell and goes. True: `seen` changes nothing else.
bool two_at_once(Turn& turn, const Submission& s, const JobSeen& seen, std::uint32_t known) {
  const RunState& run = turn.r();
  if (!traits_of(run.policy.scheduler.kind).tasks_meet) return false;
  const JobId elder{s.job.job, std::min(known, seen.job.task)};
  const JobId newcomer{s.job.job, std::max(known, seen.job.task)};
  const bool speaks = run.live && run.live->token == s.token && run.live->job == elder &&
                      !run.live->goodbye_at && !run.live->lead_silent;
  if (speaks && !has_agents(run.policy)) {
    turn.say(
        fmt::format("{} runs although {} was not seen to end: without agents both would write, so "
                    "the new job is cancelled",
                    job_text(newcomer), job_text(elder)));
    turn.act(Cancel{s.token, newcomer, false, false});
    return true;
  }
  if (speaks) {
    turn.say(fmt::format("{} runs beside {}, whose agents report: the new job must exit",
                         job_text(newcomer), job_text(elder)));
    replace_uncounted(turn, s);
    return true;
  }
  turn.say(
      fmt::format("{} runs although {} was not seen to end; cancelling the rest of the old job",
                  job_text(newcomer), job_text(elder)));
  turn.act(Cancel{s.token, elder, false, false});
  return seen.job == elder;
}

void on_running(Turn& turn, Submission& s, const JobSeen& seen) {
  RunState& run = turn.r();
  const std::uint32_t before = running_task(s);
  const bool same = std::holds_alternative<Running>(s.state) && before == seen.job.task;
  if (const auto* ending = std::get_if<Ending>(&s.state); ending != nullptr) {
    if (ending->task == seen.job.task) return;
    decide_end(turn, s);
  } else if (std::holds_alternative<Running>(s.state) && !same) {
    if (two_at_once(turn, s, seen, before)) return;
    JobSeen end = seen;  // one task at a time: the next runs, so the one before is over
    end.job.task = before;
    end.state = JobState::Completed;
    turn.go(s, Ending{before, end, turn.now()}, SupplyTrigger::TaskOver);
    decide_end(turn, s);
  }
  if (!same) turn.go(s, Running{seen.job.task}, SupplyTrigger::Runs);
  if (std::exchange(run.jobs.without_exclusions, false)) resolve(turn, "exclusions_starve");
  switch (training::reactions_of(run).task_runs(run)) {
    case training::RunningTask::Unwanted: return burn(turn, s, seen);
    case training::RunningTask::Awaited:
      turn.go(training::Starting{turn.now()}, Trigger::JobRuns,
              fmt::format(
                  "{} runs on {}{}", job_text(seen.job), nodes_text(seen.nodes),
                  seen.ends_at ? fmt::format(", until {}", format_rfc3339(*seen.ends_at)) : ""));
      break;
    case training::RunningTask::Known:
      if (same) return;
      break;
  }
  if (!has_agents(run.policy)) {
    s.cancel_asked = false;  // of when it seemed to wait
    script::begin(turn, s, seen);
  }
  top_up(turn);
}

// The task that ran last was not cancelled: the array had come to its end, no matter who cancelled
// the rest.
bool ran_to_its_end(const Submission& s) {
  for (auto task = s.tasks.rbegin(); task != s.tasks.rend(); ++task)
    if (is_terminal(task->second.state)) return task->second.state != JobState::Cancelled;
  return false;
}

// Nothing of the submission runs, and nothing of it can start.
void all_cancelled(Turn& turn, Submission& s, const JobSeen& seen, bool by_hand) {
  turn.go(s, Terminal{"cancelled"}, SupplyTrigger::Exhausted);
  if (by_hand && turn.kind() == TrainingKind::Queued && !ran_to_its_end(s))
    return decide_hand_cancel(turn, seen);
  ensure(turn, fmt::format("{} is cancelled", job_text(seen.job)));
}

bool is_by_hand(const Turn& turn, const Submission& s, const JobSeen& seen) {
  return !s.cancel_asked && !seen.cancelled_by_us && !turn.r().asked.paused;
}

// A script's job that no look saw running: how it began and ended is in its logs, which are read as
// those of any other. (Agents report by themselves.)
void begin_unseen(Turn& turn, Submission& s, const JobSeen& seen) {
  turn.go(s, Running{seen.job.task}, SupplyTrigger::Runs);
  turn.go(training::Starting{turn.now()}, Trigger::JobRuns,
          fmt::format("{} began and ended between two looks at the queue", job_text(seen.job)));
  s.tasks[seen.job.task].nodes = seen.nodes;
  script::begin(turn, s, seen);
}

// COMPLETED may mean that the training is finished, even where the job was ordered to exit in that
// moment: a script's last lines decide it.
bool may_have_finished(const RunState& run, const JobSeen& seen) {
  return !has_agents(run.policy) && seen.state == JobState::Completed && seen.exit_code == 0 &&
         !seen.forgotten;
}

// The tasks that were not started are gone from the queue. A task that runs is not touched by that.
void on_rest_gone(Turn& turn, Submission& s, const JobSeen& seen) {
  const bool by_hand = !s.rest_cancelled && is_by_hand(turn, s, seen);
  const std::uint32_t gone = s.waiting();
  s.rest_cancelled = s.rest_gone = true;
  const std::uint32_t task = running_task(s);
  if (task == 0 && next_runs(s, 0)) return;  // its end is still to come
  if (task == 0) return all_cancelled(turn, s, seen, by_hand);
  if (!by_hand || gone == 0 || s.tasks[task].state == JobState::Completing) return;
  const std::string text = fmt::format(
      "{} of {} that waited {} cancelled{}, not by stoker; {} goes on", count_text(gone, "task"),
      job_text(s.job), gone == 1 ? "was" : "were", by_whom(seen), job_text({s.job.job, task}));
  turn.say(text);
  raise(turn, {Severity::Warning, "cancelled_by_hand", text, command_text(turn.name(), "why"), ""});
  top_up(turn);
}

void on_terminal(Turn& turn, Submission& s, const JobSeen& seen) {
  if (!s.live()) return;
  if (seen.job.task == 0) return on_rest_gone(turn, s, seen);
  if (const auto task = s.tasks.find(seen.job.task); task != s.tasks.end())
    heed_suspension(turn, s, seen, task->second.state);
  if (!s.tasks.contains(seen.job.task) || s.tasks[seen.job.task].state == JobState::Pending) {
    // Never seen running: cancelled in the queue, or so short that no look saw it run.
    if (seen.state == JobState::Cancelled && running_task(s) != seen.job.task) {
      s.tasks[seen.job.task].state = seen.state;
      if (may_start(turn.r(), s) == 0 && running_task(s) == 0 && !next_runs(s, 0))
        all_cancelled(turn, s, seen, is_by_hand(turn, s, seen));
      return;
    }
  }
  const auto* ending = std::get_if<Ending>(&s.state);
  const bool other = (ending != nullptr && ending->task != seen.job.task) ||
                     (std::holds_alternative<Running>(s.state) && running_task(s) != seen.job.task);
  if (other) {  // so short that no look saw it run, or the next one was seen first
    const bool by_hand = seen.state == JobState::Cancelled && !seen.cancelled_by_us &&
                         !s.cancel_asked && s.tasks[seen.job.task].state != JobState::Pending;
    Task& task = s.tasks[seen.job.task];
    task.state = seen.state;
    if (seen.job.task > (ending != nullptr ? ending->task : running_task(s)))
      task.early_end = seen;  // its generation may still be reported
    if (by_hand) warn_cancelled(turn, seen);
  }
  if (other || ending != nullptr) return;
  const RunState& run = turn.r();
  if (!has_agents(run.policy) && turn.kind() == TrainingKind::Queued && running_task(s) == 0)
    begin_unseen(turn, s, seen);
  s.tasks[seen.job.task].state = seen.state;
  turn.go(s, Ending{seen.job.task, seen, turn.now() + wait_for_words(run)},
          SupplyTrigger::TaskOver);
  const bool ours = run.live && run.live->token == s.token && run.live->job.task == seen.job.task;
  const bool words =
      ours && (run.live->goodbye_at ||
               (run.live->outcome && run.live->outcome->attempt == run.live->attempt) ||
               (!has_agents(run.policy) && run.health.progress.iteration.value > 0 &&
                script::finished(run, seen)));
  const bool ordered = turn.in<training::Recovering>() != nullptr || s.cancel_asked;
  const bool expected = !turn.active() || (ordered && !(ours && may_have_finished(run, seen))) ||
                        seen.state == JobState::NodeFail || seen.state == JobState::Preempted ||
                        seen.state == JobState::Cancelled;
  if (words || expected) return decide_end(turn, s);
  turn.say(fmt::format("{} ended with {}; waiting up to {} for the last {}", job_text(seen.job),
                       stoker::name_of(seen.state), format_duration(wait_for_words(run)),
                       has_agents(run.policy) ? "reports of its agents" : "lines of its logs"));
}

}  // namespace

namespace {

// Only a restart brings back a task that is over, and a running one does not wait in the queue
// unless it was restarted or its agents have left: a controller that answers so answers from the
// past. Agents that are only silent prove nothing, theirs may be a slow file system.
bool is_stale(const RunState& run, const Task& task, const JobSeen& seen, bool back) {
  if (seen.restart > task.restart) return false;
  if (is_terminal(task.state)) return true;
  return back && run.live && run.live->job == seen.job && !run.live->goodbye_at;
}

}  // namespace

namespace {

// A task that runs has been restarted since it was last seen: it waited in between, unseen. Where
// the run is to end, the new one is to end too.
bool was_requeued(const RunState& run, Submission& s, const JobId& job, std::uint32_t restart) {
  const auto* stopping = std::get_if<training::Stopping>(&run.training);
  return running_task(s) == job.task && std::holds_alternative<Running>(s.state) &&
         restart > s.tasks[job.task].restart &&
         (stopping == nullptr || stopping->goal == training::Goal::Next);
}

}  // namespace

void on_job_seen(Turn& turn, const JobSeen& seen) {
  RunState& run = turn.r();
  run.conditions.daemon_away = false;
  if (cancel_stranger(turn, seen)) return;
  Submission* s = find_or_adopt(turn, seen);
  if (s == nullptr)
    return turn.say(fmt::format("{} with the token \"{}\" does not belong to this run; ignored",
                                job_text(seen.job), seen.token.text));
  note_accepted(turn, *s, seen.job);
  if (is_terminal(seen.state)) {
    on_terminal(turn, *s, seen);
    return end_if_none_is_stuck(turn);
  }

  Task& task = s->tasks[seen.job.task];
  if (seen.state == JobState::Running && was_requeued(run, *s, seen.job, seen.restart)) {
    JobSeen waited = seen;  // between two looks
    waited.state = JobState::Requeued;
    on_job_seen(turn, waited);
  }
  const bool back = seen.job.task == running_task(*s) &&
                    std::holds_alternative<Running>(s->state) &&
                    (seen.state == JobState::Pending || seen.state == JobState::Requeued);
  if (is_stale(run, task, seen, back))
    return turn.say(fmt::format("an old answer about {} ({}), ignored", job_text(seen.job),
                                stoker::name_of(seen.state)));
  task.early_end.reset();
  const bool requeued = back;
  const JobState before = std::exchange(task.state, seen.state);
  heed_suspension(turn, *s, seen, before);
  if (seen.state != JobState::Completing)  // that is the end of the one before
    task.restart = std::max(task.restart, seen.restart);
  task.reason = seen.reason;
  // Of a completing job squeue lists those nodes alone that are not back in service yet.
  const bool whole = seen.state != JobState::Completing || task.nodes.empty();
  if (!seen.nodes.empty() && whole) task.nodes = seen.nodes;
  task.ends_at = seen.ends_at;
  if (seen.state == JobState::Running) {
    on_running(turn, *s, seen);
    return end_if_none_is_stuck(turn);
  }
  if (requeued) {
    turn.go(*s, Pending{}, SupplyTrigger::Waits);
    run.live.reset();
    if (turn.active())
      turn.go(training::Queued{}, Trigger::TaskEnds,
              fmt::format("{} was requeued by the scheduler (restart {})", job_text(seen.job),
                          seen.restart));
    return;
  }
  if (seen.state != JobState::Pending && seen.state != JobState::Requeued) return;
  if (!s->live() || std::holds_alternative<Intended>(s->state) ||
      std::holds_alternative<Unknown>(s->state))
    turn.go(*s, Pending{}, SupplyTrigger::Waits);
  heed_reason(turn, *s, seen);
}

void on_claimed(Turn& turn, const wire::GenerationStarted& e) {
  RunState& run = turn.r();
  const auto found = run.jobs.supply.find(e.token);
  if (found == run.jobs.supply.end() || !found->second.live()) return;
  JobSeen seen;
  seen.token = e.token;
  seen.job = e.job;
  seen.restart = e.restart;
  if (running_task(found->second) == e.job.task) {
    if (!was_requeued(run, found->second, e.job, e.restart)) return;
  } else if (run.live && run.live->job != e.job) {
    run.live->lead_silent = true;  // no generation begins beside one that speaks
  }
  seen.state = JobState::Running;
  seen.nodes = e.nodes;
  on_job_seen(turn, seen);
}

}  // namespace stoker::core::supply
