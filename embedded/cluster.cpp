// How the cluster's values look from outside, in SLURM's words.
#include "embedded/cluster.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace stoker::embedded {

const Task* Cluster::task_on(const NodeName& node) const {
  for (const auto& [key, task] : tasks)
    if (task.active() && std::find(task.nodes.begin(), task.nodes.end(), node) != task.nodes.end())
      return &task;
  return nullptr;
}

NodeName node_name(std::uint32_t number) {
  return NodeName(fmt::format("n{:02}", number));
}

void grow_nodes(Cluster& cluster, std::uint32_t count) {
  for (std::uint32_t i = 1; i <= std::min(count, kMaxClusterNodes); ++i) {
    const NodeName name = node_name(i);
    cluster.nodes.try_emplace(name, Node{name, Health::Up, ""});
  }
}

core::NodeSeen describe_node(const Cluster& cluster, const Node& node) {
  core::NodeSeen seen;
  seen.node = node.name;
  seen.usable = node.health == Health::Up;
  seen.reason = node.reason;
  const bool busy = cluster.task_on(node.name) != nullptr;
  switch (node.health) {
    case Health::Up: seen.state = busy ? "ALLOCATED" : "IDLE"; break;
    case Health::Drain: seen.state = busy ? "DRAINING" : "DRAINED"; break;
    case Health::Down: seen.state = "DOWN"; break;
  }
  return seen;
}

core::JobSeen describe_task(const Cluster& cluster, const Task& task) {
  core::JobSeen seen;
  const auto job = cluster.jobs.find(task.id.job);
  if (job != cluster.jobs.end()) seen.token = job->second.request.token;
  seen.job = task.id;
  seen.restart = task.restart;
  seen.state = task.state;
  seen.reason = task.reason;
  seen.nodes = task.nodes;
  if (task.active()) seen.ends_at = task.ends;
  if (task.finished()) {
    seen.exit_code = task.exit_code;
    seen.signal = task.signal;
  }
  seen.cancelled_by_uid = task.cancelled_by_uid;
  seen.cancelled_by_us = task.cancelled_by_us;
  return seen;
}

}  // namespace stoker::embedded
