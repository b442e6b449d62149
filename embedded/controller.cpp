// The turn of the loop: processes, states, starts. Requests are in controller_requests.cpp.
#include "embedded/controller.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>

#include "common/printable.hpp"
#include "embedded/lifecycle.hpp"
#include "embedded/schedule.hpp"

namespace stoker::embedded {
namespace {

constexpr std::size_t kFinishedKept = 2000;  // tasks in the accounting
constexpr Duration kLadderSlack = 10s;       // beyond the node process's own ladder

}  // namespace

bool Controller::has_live_tasks() const {
  return std::any_of(cluster_.tasks.begin(), cluster_.tasks.end(),
                     [](const auto& entry) { return !entry.second.finished(); });
}

std::vector<Task*> Controller::tasks_of(const JobId& id) {
  std::vector<Task*> out;
  for (auto it = cluster_.tasks.lower_bound(JobId{id.job, id.task});
       it != cluster_.tasks.end() && it->first.job == id.job; ++it)
    if (id.task == 0 || it->first.task == id.task) out.push_back(&it->second);
  return out;
}

void Controller::end_task(Task& task, EndCause cause) {
  if (!task.active()) return;
  begin_ending(task, cause, now_);
  changes_.tasks.insert(task.id);
}

// Once each, and only when the cause is durable: a scheduler process that is killed in between
// would find a process ended by TERM and not know why. The next one asks again.
void Controller::ask_to_leave() {
  for (const auto& [id, task] : cluster_.tasks) {
    if (!task.active() || task.cause == EndCause::None) continue;
    for (std::size_t i = 0; i < task.runs.size(); ++i)
      if (task.runs[i].phase == RunPhase::Starting || task.runs[i].phase == RunPhase::Running)
        runner_.ask_to_leave(task, i);
  }
}

// A node that is DOWN has no processes: what still runs there is killed at once.
void Controller::bury_dead_nodes(Task& task) {
  if (!task.active()) return;
  const Job& job = cluster_.jobs.at(task.id.job);
  for (std::size_t i = 0; i < task.runs.size(); ++i) {
    const NodeName node = task.runs[i].node;
    const auto known = cluster_.nodes.find(node);
    if (known == cluster_.nodes.end() || known->second.health != Health::Down ||
        task.runs[i].phase == RunPhase::Lost)
      continue;
    runner_.kill_all(task, i);
    changes_.tasks.insert(task.id);
    if (lose_node(task, job, node)) end_task(task, EndCause::NodeFailed);
  }
  settle_task(task);
}

void Controller::look_at_runs(Task& task) {
  const Job& job = cluster_.jobs.at(task.id.job);
  for (std::size_t i = 0; i < task.runs.size(); ++i) {
    NodeRun& run = task.runs[i];
    if (run.phase != RunPhase::Starting && run.phase != RunPhase::Running) continue;
    const NodeRunner::Look look = runner_.look(job, task, i);
    if (look.seen == NodeRunner::Seen::Starting) continue;
    if (look.seen == NodeRunner::Seen::Alive) {
      if (run.phase == RunPhase::Running) continue;
      run.phase = RunPhase::Running;
      changes_.tasks.insert(task.id);
      continue;
    }
    changes_.tasks.insert(task.id);
    if (look.exit.unkillable > 0) {
      cluster_.nodes[run.node] = {run.node, Health::Drain, "Kill task failed"};
      changes_.nodes.insert(run.node);
    }
    if (look.host_restarted) {
      if (lose_node(task, job, run.node)) end_task(task, EndCause::NodeFailed);
      continue;
    }
    run.phase = RunPhase::Ended;
    run.exit_code = look.exit.exit_code;
    run.signal = look.exit.signal;
    run.why = look.exit.why;
  }
}

// The wall of a task without processes (limbo), and a node process that does not do what it should
// (stopped by SIGSTOP, say): after its own ladder is over by far, everything of it is killed.
void Controller::enforce(Task& task) {
  if (!task.active()) return;
  const Job& job = cluster_.jobs.at(task.id.job);
  if (task.cause == EndCause::None && now_ >= task.ends) end_task(task, EndCause::TimeLimit);
  if (task.cause == EndCause::None ||
      now_ < task.ending_since + job.request.kill_wait + kLadderSlack)
    return;
  for (std::size_t i = 0; i < task.runs.size(); ++i)
    if (task.runs[i].phase == RunPhase::Starting || task.runs[i].phase == RunPhase::Running)
      runner_.kill_all(task, i);
}

void Controller::settle_task(Task& task) {
  const core::JobState before = task.state;
  const EndCause cause = task.cause;
  settle(task, cluster_.jobs.at(task.id.job), now_);
  if (task.state != before || task.cause != cause) changes_.tasks.insert(task.id);
  if (task.finished()) runner_.forget(task);
}

void Controller::start_tasks() {
  Plan plan = plan_starts(cluster_, now_);
  next_begin_ = plan.next_begin;
  for (const auto& [id, reason] : plan.reasons) {
    Task& task = cluster_.tasks.at(id);
    if (task.reason == reason) continue;
    task.reason = reason;
    changes_.tasks.insert(id);
  }
  if (store_error_ || plan.starts.empty()) return;
  std::vector<Task> before;
  for (StartTask& start : plan.starts) {
    Task& task = cluster_.tasks.at(start.task);
    before.push_back(task);
    start_task(task, cluster_.jobs.at(start.task.job), std::move(start.nodes), cluster_.next_id++,
               now_);
    changes_.tasks.insert(start.task);
  }
  if (!save()) {  // nothing starts that is not durable
    for (Task& task : before) cluster_.tasks.at(task.id) = std::move(task);
    return;
  }
  for (const StartTask& start : plan.starts) {
    const Task& task = cluster_.tasks.at(start.task);
    for (std::size_t i = 0; i < task.runs.size(); ++i)
      if (const Status s = runner_.start(cluster_.jobs.at(task.id.job), task, i); !s)
        tell_stderr(task.id.text() + ": " + s.error().message());
  }
}

void Controller::forget_old() {
  for (const std::uint64_t id : jobs_to_forget(cluster_, kFinishedKept)) {
    for (const Task* task : tasks_of(JobId{id, 0})) {
      std::error_code ignored;  // a log that stays behind is harmless
      std::filesystem::remove_all(fmt::format("{}/jobs/{}", folder_, task->id.text()), ignored);
      changes_.tasks.erase(task->id);
    }
    std::erase_if(cluster_.tasks, [id](const auto& entry) { return entry.first.job == id; });
    changes_.jobs.erase(id);
    changes_.forgotten.insert(id);
    cluster_.jobs.erase(id);
  }
}

Status Controller::save() {
  if (changes_.empty()) {
    store_error_.reset();
    return ok();
  }
  const Status status = store_.save(cluster_, changes_);
  if (status) {
    changes_ = {};
    store_error_.reset();
  } else {
    if (!store_error_) tell_stderr(status.error().message());
    store_error_ = status.error();
  }
  return status;
}

void Controller::advance(WallTime now) {
  now_ = now;
  if (store_error_) (void)save();
  for (auto& [id, task] : cluster_.tasks) {
    if (!task.active()) continue;
    bury_dead_nodes(task);
    look_at_runs(task);
    settle_task(task);  // before its wall is enforced: what ended in time has ended in time
    enforce(task);
    settle_task(task);
  }
  start_tasks();
  forget_old();
  (void)save();
  ask_to_leave();
}

Duration Controller::wait(WallTime now) const {
  Duration wait = store_error_ ? 500ms : 5s;
  const auto until = [&wait, now](WallTime t) {
    wait = std::min(wait, std::max(Duration(1ms), t - now));
  };
  if (next_begin_) until(*next_begin_);
  for (const auto& [id, task] : cluster_.tasks) {
    if (!task.active()) continue;
    if (task.cause == EndCause::None) until(task.ends);
    for (const NodeRun& run : task.runs)
      if (run.phase == RunPhase::Starting) wait = std::min<Duration>(wait, 10ms);
    if (task.cause != EndCause::None) wait = std::min<Duration>(wait, 500ms);
  }
  return wait;
}

}  // namespace stoker::embedded
