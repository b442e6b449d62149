// What users and administrators do to jobs and nodes, as slurmctld of 22.05 takes it
// (ReturnToService 0 or 1: a node that an administrator has set down stays down).
#include <algorithm>
#include <limits>

#include "sim/cluster/cluster.hpp"

namespace stoker::sim {
namespace {

using core::JobState;

bool has_ended(const SimTask& task) {
  return core::is_terminal(task.state) || task.state == JobState::Completing;
}

}  // namespace

std::vector<Cluster::Record> Cluster::records_of(const SimJob& job) {
  std::vector<Record> records;
  Record arrays;
  for (const auto& [number, task] : job.state) {
    if (task.unlisted) continue;
    if (task.own == 0)
      arrays.push_back(number);
    else
      records.push_back({number});
  }
  if (!arrays.empty()) records.insert(records.begin(), std::move(arrays));
  return records;
}

// `what` answers for a record by its first task, and changes all of them. An update of one task
// takes it out of the array's record; the last one stays there.
template <class What>
Verdicts Cluster::on_records(std::uint64_t id, std::uint32_t only, Splits splits, What what) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return {{Verdict::NoSuchJob, {}}};
  SimJob& job = found->second;
  Verdicts verdicts;
  // The array's own record first, then those of single tasks, the newest first: in this order a
  // release gives each its priority.
  std::vector<Record> records = records_of(job);
  const auto age = [&job](const Record& record) {
    const SimTask& task = job.state.at(record.front());
    const bool base = task.own == 0 || task.own == job.id;
    return base ? 0 : std::numeric_limits<std::uint32_t>::max() - task.born;
  };
  std::stable_sort(records.begin(), records.end(),
                   [&age](const Record& a, const Record& b) { return age(a) < age(b); });
  for (Record record : records) {
    if (only != 0 && std::find(record.begin(), record.end(), only) == record.end()) continue;
    const bool waits = job.state.at(record.front()).state == JobState::Pending;
    if (only != 0 && splits == Splits::Yes && waits && record.size() > 1) {
      split(job, only);
      record = {only};
    }
    auto& said = verdicts[what(job, record, job.state.at(record.front()))];
    for (const std::uint32_t number : record)
      if (number != 0) said.insert(number);
  }
  poll();
  if (verdicts.empty()) return {{Verdict::NoSuchJob, {only}}};
  return verdicts;
}

// By a user: what an administrator holds is not released. Running tasks are held for their next
// start.
Verdicts Cluster::hold(std::uint64_t id, std::uint32_t only, bool held) {
  return on_records(id, only, Splits::Yes, [&](SimJob& job, const Record& record, SimTask first) {
    if (has_ended(first)) return Verdict::Finished;
    if (held == (first.priority == 0)) return Verdict::Done;
    if (!held && !first.by_user) return Verdict::Denied;
    first.priority = held ? 0 : --last_priority_;
    for (const std::uint32_t number : record) {
      SimTask& task = job.state.at(number);
      task.priority = first.priority;
      task.by_user = held;
      if (!held) task.exit_code = task.signal = 0;
    }
    return Verdict::Done;
  });
}

// The task waits again, in its record. What it ended with is shown until it starts.
void Cluster::put_back(SimJob& job, std::uint32_t number, JobState ended) {
  SimTask& task = job.state.at(number);
  task.attempt_before = {ended, task.exit_code, task.signal, task.node_list, task.resent};
  task.resent = false;
  task.state = JobState::Pending;
  task.started = task.ends_at = task.ended = Instant{};
  task.nodes.clear();
  task.node_list.clear();
  task.processes = false;
  task.restarts += 1;
  task.queued = time_.now();
  task.begin = time_.now() + shape_.requeue_delay;
  if (task.priority != 0) task.by_user = false;
  time_.at(task.begin, [this] { poll(); });
}

Verdicts Cluster::requeue(std::uint64_t id, std::uint32_t only) {
  return on_records(id, only, Splits::No, [&](SimJob& job, const Record& record, SimTask first) {
    if (!job.requeue) return Verdict::Disabled;
    if (first.state == JobState::Pending) return Verdict::Pending;
    for (const std::uint32_t number : record) {
      if (!has_ended(first)) hooks_.killed(job, number, true);
      put_back(job, number, core::is_terminal(first.state) ? first.state : JobState::Requeued);
    }
    return Verdict::Done;
  });
}

// A suspended task has no priority: when it is requeued, an administrator's hold is left.
Verdicts Cluster::suspend(std::uint64_t id, std::uint32_t only, bool suspended) {
  return on_records(id, only, Splits::No, [&](SimJob& job, const Record& record, SimTask first) {
    if (first.state == JobState::Pending) return Verdict::Pending;
    if (has_ended(first)) return Verdict::Over;
    if (!suspended && first.state != JobState::Suspended) return Verdict::NotSuspended;
    SimTask& task = job.state.at(record.front());
    task.state = suspended ? JobState::Suspended : JobState::Running;
    if (suspended) {
      task.priority = 0;
      task.suspended = time_.now();
      return Verdict::Done;
    }
    if (task.priority == 0) task.priority = --last_priority_;
    task.ends_at += time_.now() - task.suspended;
    time_.at(task.ends_at, [this] { poll(); });
    return Verdict::Done;
  });
}

Verdicts Cluster::set_exclusions(std::uint64_t id, std::uint32_t only,
                                 const std::vector<NodeName>& nodes) {
  return on_records(id, only, Splits::Yes, [&](SimJob& job, const Record& record, SimTask first) {
    if (has_ended(first)) return Verdict::Finished;
    if (!nodes.empty() && first.exclude == nodes) return Verdict::Done;
    if (first.state != JobState::Pending) return Verdict::NotPending;
    for (const std::uint32_t number : record) job.state.at(number).exclude = nodes;
    return Verdict::Done;
  });
}

// Of a waiting task. That slurmctld lets a running one shrink, nothing here does.
Verdicts Cluster::require_nodes(std::uint64_t id, std::uint32_t only,
                                const std::vector<NodeName>& nodes) {
  return on_records(id, only, Splits::Yes, [&](SimJob& job, const Record& record, SimTask first) {
    if (has_ended(first)) return Verdict::Finished;
    if (first.state != JobState::Pending) return Verdict::InvalidNodes;
    for (const std::uint32_t number : record) job.state.at(number).require = nodes;
    return Verdict::Done;
  });
}

Verdicts Cluster::set_end(std::uint64_t id, std::uint32_t only, Instant end) {
  return on_records(id, only, Splits::Yes, [&](SimJob& job, const Record& record, SimTask first) {
    if (has_ended(first)) return Verdict::Finished;
    if (first.state != JobState::Running) return Verdict::NotRunning;
    job.state.at(record.front()).ends_at = end;
    time_.at(end, [this] { poll(); });
    return Verdict::Done;
  });
}

Verdicts Cluster::set_limit(std::uint64_t id, std::uint32_t only, Duration limit) {
  return on_records(id, only, Splits::Yes, [&](SimJob& job, const Record& record, SimTask first) {
    if (has_ended(first)) return Verdict::Finished;
    if (first.state != JobState::Pending)
      job.state.at(record.front()).ends_at = first.started + limit;
    if (only == 0) job.limit = limit;
    return Verdict::Done;
  });
}

bool Cluster::set_node(const NodeName& name, NodeWord word, const std::string& reason) {
  SimNode& node = nodes_.at(name);
  if (word == NodeWord::Resume && !node.told_down && !node.drained) return false;
  node.reason = word == NodeWord::Resume ? "" : reason;
  if (word == NodeWord::Resume) node.drained = node.told_down = false;
  if (word == NodeWord::Drain) node.drained = true;
  if (word == NodeWord::Down) node.told_down = true;
  if (word != NodeWord::Down) return poll(), true;
  for (auto& [id, job] : jobs_)
    for (auto& [number, task] : job.state) {
      if (task.state == JobState::Running || task.state == JobState::Suspended)
        fail_node(job, number, name, false);
    }
  return true;
}

}  // namespace stoker::sim
