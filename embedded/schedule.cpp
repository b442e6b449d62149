#include "embedded/schedule.hpp"

#include <algorithm>
#include <set>

#include "common/hostlist.hpp"

namespace stoker::embedded {
namespace {

bool is_finished(const Cluster& cluster, const JobId& id) {
  if (id.task != 0) {
    const auto task = cluster.tasks.find(id);
    return task == cluster.tasks.end() || task->second.finished();
  }
  for (auto it = cluster.tasks.lower_bound(JobId{id.job, 0});
       it != cluster.tasks.end() && it->first.job == id.job; ++it)
    if (!it->second.finished()) return false;
  return true;
}

bool dependencies_met(const Cluster& cluster, const Job& job) {
  for (const JobId& id : job.after)
    if (!is_finished(cluster, id)) return false;
  if (!job.request.singleton) return true;
  for (const auto& [id, other] : cluster.jobs) {
    if (id >= job.id) break;
    if (other.request.name == job.request.name && other.uid == job.uid &&
        !is_finished(cluster, JobId{id, 0}))
      return false;
  }
  return true;
}

std::uint32_t active_tasks(const Cluster& cluster, std::uint64_t job) {
  std::uint32_t count = 0;
  for (auto it = cluster.tasks.lower_bound(JobId{job, 0});
       it != cluster.tasks.end() && it->first.job == job; ++it)
    count += it->second.active() ? 1 : 0;
  return count;
}

struct Supply {
  std::vector<NodeName> idle, busy, away;  // of those that the job does not exclude
};

Supply supply_for(const Cluster& cluster, const Job& job, const std::set<NodeName>& taken) {
  Supply out;
  const auto& exclude = job.request.exclude;
  for (const auto& [name, node] : cluster.nodes) {
    if (std::find(exclude.begin(), exclude.end(), name) != exclude.end()) continue;
    if (node.health != Health::Up)
      out.away.push_back(name);
    else if (taken.count(name) > 0)
      out.busy.push_back(name);
    else
      out.idle.push_back(name);
  }
  return out;
}

struct Starts {
  const Cluster& cluster;
  WallTime now;
  Plan plan = {};
  std::set<NodeName> taken = {};
  std::map<std::uint64_t, std::uint32_t> active = {};
  std::map<std::uint64_t, bool> met = {};
  bool others_wait = false;

  void look_at(const Task& task, const Job& job);
};

void Starts::look_at(const Task& task, const Job& job) {
  const JobId& id = task.id;
  if (active.count(id.job) == 0) {
    active[id.job] = active_tasks(cluster, id.job);
    met[id.job] = dependencies_met(cluster, job);
  }
  std::string& reason = plan.reasons[id];
  if (task.held) {
    reason = "JobHeldUser";
  } else if (job.begin > now) {
    reason = "BeginTime";
    plan.next_begin = plan.next_begin ? std::min(*plan.next_begin, job.begin) : job.begin;
  } else if (!met[id.job]) {
    reason = "Dependency";
  } else if (active[id.job] >= std::max(1u, job.request.throttle)) {
    reason = "JobArrayTaskLimit";
  } else if (others_wait) {
    reason = "Priority";
  } else {
    Supply supply = supply_for(cluster, job, taken);
    const std::size_t need = job.request.nodes;
    if (supply.idle.size() >= need) {
      supply.idle.resize(need);
      taken.insert(supply.idle.begin(), supply.idle.end());
      ++active[id.job];
      plan.starts.push_back({id, supply.idle});
      plan.reasons.erase(id);
    } else if (supply.idle.size() + supply.busy.size() >= need || supply.away.empty()) {
      reason = "Resources";
      others_wait = supply.idle.size() + supply.busy.size() >= need;
    } else {
      reason = "ReqNodeNotAvail, UnavailableNodes:" + compress_hostlist(supply.away);
    }
  }
}

}  // namespace

Plan plan_starts(const Cluster& cluster, WallTime now) {
  Starts starts{cluster, now};
  for (const auto& [id, task] : cluster.tasks)
    if (task.active()) starts.taken.insert(task.nodes.begin(), task.nodes.end());
  for (const bool background : {false, true})
    for (const auto& [id, task] : cluster.tasks) {
      const Job& job = cluster.jobs.at(id.job);
      if (task.state == core::JobState::Pending && job.request.background == background)
        starts.look_at(task, job);
    }
  return std::move(starts.plan);
}

}  // namespace stoker::embedded
