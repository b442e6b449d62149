// What users and administrators do to jobs and nodes, as slurmctld of 22.05 takes it.
#include <algorithm>

#include "sim/cluster.hpp"

namespace stoker::sim {
namespace {

using core::JobState;
constexpr Duration kRequeueDelay = 120s;  // of a requeued job, before it may start again

}  // namespace

// False: no task of it was in a state for that.
template <class What>
bool Cluster::on_tasks(std::uint64_t id, std::uint32_t only, What what) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return false;
  bool any = false;
  for (auto& [number, task] : found->second.state) {
    if ((only != 0 && number != only) || task.unlisted) continue;
    any = what(found->second, number, task) || any;
  }
  poll();
  return any;
}

bool Cluster::hold(std::uint64_t id, std::uint32_t only, bool held) {
  return on_tasks(id, only, [&](SimJob& job, std::uint32_t number, SimTask& task) {
    if (core::is_terminal(task.state)) return false;
    if (task.state != JobState::Pending) return only == 0;
    if (only != 0 && job.array) split(job, number);
    task.held = held;
    return true;
  });
}

// The task waits again, in a record of its own.
void Cluster::put_back(SimJob& job, std::uint32_t number) {
  SimTask& task = job.state.at(number);
  SimTask again;
  again.own = task.own;
  again.restarts = task.restarts + 1;
  again.begin = time_.now() + kRequeueDelay;
  task = again;
  time_.at(again.begin, [this] { poll(); });
}

bool Cluster::requeue(std::uint64_t id, std::uint32_t only) {
  return on_tasks(id, only, [&](SimJob& job, std::uint32_t number, SimTask& task) {
    if (!job.requeue || task.state == JobState::Pending || task.state == JobState::Completing)
      return false;
    if (task.state == JobState::Running) hooks_.killed(job, number, true);
    put_back(job, number);
    return true;
  });
}

bool Cluster::suspend(std::uint64_t id, std::uint32_t only, bool suspended) {
  return on_tasks(id, only, [&](SimJob&, std::uint32_t, SimTask& task) {
    if (task.state != (suspended ? JobState::Running : JobState::Suspended)) return false;
    task.state = suspended ? JobState::Suspended : JobState::Running;
    return true;
  });
}

bool Cluster::set_exclusions(std::uint64_t id, std::uint32_t only, std::vector<NodeName> nodes) {
  bool all = true;
  const bool any = on_tasks(id, only, [&](SimJob& job, std::uint32_t number, SimTask& task) {
    if (core::is_terminal(task.state)) return false;
    if (task.state != JobState::Pending) return all = false;
    if (only != 0 && job.array) split(job, number);
    return true;
  });
  const auto found = jobs_.find(id);
  if (any && found != jobs_.end()) found->second.exclude = std::move(nodes);
  return any && all;
}

bool Cluster::set_limit(std::uint64_t id, std::uint32_t only, Duration limit) {
  return on_tasks(id, only, [&](SimJob& job, std::uint32_t number, SimTask& task) {
    if (core::is_terminal(task.state)) return false;
    if (only != 0 && job.array && task.state == JobState::Pending) split(job, number);
    if (task.state == JobState::Running) task.ends_at = task.started + limit;
    if (only == 0) job.limit = limit;
    return true;
  });
}

void Cluster::set_node(const NodeName& name, NodeWord word, const std::string& reason) {
  SimNode& node = nodes_.at(name);
  node.reason = word == NodeWord::Resume ? "" : reason;
  node.drained = word == NodeWord::Drain;
  node.told_down = word == NodeWord::Down;
  if (word != NodeWord::Down) return poll();
  for (auto& [id, job] : jobs_)
    for (auto& [number, task] : job.state) {
      const bool runs = task.state == JobState::Running || task.state == JobState::Suspended;
      if (!runs || std::find(task.nodes.begin(), task.nodes.end(), name) == task.nodes.end())
        continue;
      hooks_.killed(job, number, false);
      if (job.requeue)
        put_back(job, number);
      else
        end(job, number, JobState::NodeFail, 0, 0);
    }
}

}  // namespace stoker::sim
