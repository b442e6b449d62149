#include "embedded/lifecycle.hpp"

#include <algorithm>
#include <csignal>
#include <map>

namespace stoker::embedded {
namespace {

using core::JobState;

bool over(const NodeRun& run) {
  return run.phase == RunPhase::Ended || run.phase == RunPhase::Lost;
}

int weight(const NodeRun& run) {  // as a shell shows it: a signal counts above most codes
  return run.signal != 0 ? 128 + run.signal : run.exit_code;
}

void finish(Task& task, JobState state, const char* reason, WallTime now) {
  task.state = state;
  task.reason = reason;
  task.ended = now;
}

void finish_by_exit(Task& task, WallTime now) {
  const NodeRun* worst = nullptr;
  for (const NodeRun& run : task.runs)
    if (run.phase == RunPhase::Ended && (worst == nullptr || weight(run) > weight(*worst)))
      worst = &run;
  task.exit_code = worst != nullptr ? worst->exit_code : 0;
  task.signal = worst != nullptr ? worst->signal : 0;
  if (task.exit_code == 0 && task.signal == 0)
    finish(task, JobState::Completed, "None", now);
  else
    finish(task, JobState::Failed,
           worst->why == "launch" ? "LaunchFailed"
                                  : (task.signal != 0 ? "RaisedSignal" : "NonZeroExitCode"),
           now);
}

void back_to_queue(Task& task) {
  Task fresh;
  fresh.id = task.id;
  fresh.restart = task.restart + 1;
  fresh.held = task.held;
  task = fresh;
}

}  // namespace

void start_task(Task& task, const Job& job, std::vector<NodeName> nodes, std::uint64_t raw_id,
                WallTime now) {
  task.state = JobState::Running;
  task.reason = "None";
  task.raw_id = raw_id;
  task.started = now;
  task.ends = now + job.request.time_limit;
  task.runs.clear();
  for (const NodeName& node : nodes) task.runs.push_back({node, RunPhase::Starting, 0, 0, ""});
  task.nodes = std::move(nodes);
}

void begin_ending(Task& task, EndCause cause, WallTime now) {
  if (!task.active() || task.cause != EndCause::None) return;
  task.cause = cause;
  task.ending_since = now;
  task.state = JobState::Completing;
}

bool lose_node(Task& task, const Job& job, const NodeName& node) {
  if (!task.active()) return false;
  bool was_mine = false;
  for (NodeRun& run : task.runs) {
    if (run.node != node || run.phase == RunPhase::Lost) continue;
    was_mine = true;
    run = {node, RunPhase::Lost, 0, SIGKILL, "lost"};
  }
  if (!was_mine) return false;
  task.nodes.erase(std::remove(task.nodes.begin(), task.nodes.end(), node), task.nodes.end());
  if (task.runs.front().node == node) task.batch_host_lost = true;
  return !job.request.no_kill || task.nodes.empty();
}

void settle(Task& task, const Job& job, WallTime now) {
  if (!task.active()) return;
  if (task.cause == EndCause::None)
    for (const NodeRun& run : task.runs)
      if (run.why == "limit") begin_ending(task, EndCause::TimeLimit, now);
  if (!std::all_of(task.runs.begin(), task.runs.end(), over)) return;
  switch (task.cause) {
    case EndCause::None:
      if (task.batch_host_lost && job.request.no_kill) return;  // limbo
      finish_by_exit(task, now);
      return;
    case EndCause::Cancelled:
      task.exit_code = 0;
      task.signal = SIGTERM;
      finish(task, JobState::Cancelled, "None", now);
      return;
    case EndCause::TimeLimit:
      task.exit_code = 0;
      task.signal = SIGTERM;
      finish(task, JobState::Timeout, "TimeLimit", now);
      return;
    case EndCause::NodeFailed:
      task.exit_code = 1;
      task.signal = 0;
      finish(task, JobState::NodeFail, "NodeDown", now);
      return;
    case EndCause::Requeued: back_to_queue(task); return;
  }
}

std::vector<std::uint64_t> jobs_to_forget(const Cluster& cluster, std::size_t keep) {
  struct Ended {
    bool over = true;
    WallTime last;
    std::size_t tasks = 0;
  };
  std::size_t ended = 0;
  for (const auto& [id, task] : cluster.tasks) ended += task.finished() ? 1 : 0;
  if (ended <= keep) return {};
  std::map<std::uint64_t, Ended> jobs;
  for (const auto& [id, task] : cluster.tasks) {
    Ended& job = jobs[id.job];
    job.over = job.over && task.finished();
    job.last = std::max(job.last, task.ended);
    ++job.tasks;
  }
  std::erase_if(jobs, [](const auto& entry) { return !entry.second.over; });
  std::vector<std::uint64_t> order;
  for (const auto& [id, job] : jobs) order.push_back(id);
  std::stable_sort(order.begin(), order.end(), [&jobs](std::uint64_t a, std::uint64_t b) {
    return jobs.at(a).last < jobs.at(b).last;
  });
  std::size_t gone = 0;
  while (gone < order.size() && ended > keep) ended -= jobs.at(order[gone++]).tasks;
  order.resize(gone);
  return order;
}

}  // namespace stoker::embedded
