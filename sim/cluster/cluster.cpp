// The controller's truth.
#include "sim/cluster/cluster.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>
#include <utility>

#include "common/hostlist.hpp"

namespace stoker::sim {
namespace {

using core::JobState;
constexpr Duration kSlurmdTimeout = 300s;  // slurm.conf, default

bool is_live(JobState state) {
  return state == JobState::Running || state == JobState::Completing ||
         state == JobState::Suspended;
}

}  // namespace

Cluster::Cluster(Timeline& time, Random& random, const ClusterShape& shape, Hooks hooks)
    : time_(time), random_(random), shape_(shape), hooks_(std::move(hooks)) {
  for (std::uint32_t i = 1; i <= shape.nodes; ++i) nodes_[NodeName(fmt::format("n{:04}", i))];
}

std::uint64_t Cluster::submit(SimJob job) {
  job.id = last_id_ += 100;
  job.submitted = time_.now();
  job.eligible = time_.now() + random_.exponential(shape_.queue_wait);
  const std::int64_t priority = job.held ? 0 : --last_priority_;
  for (std::uint32_t number = 1; number <= job.tasks; ++number) {
    SimTask& task = job.state[number];
    task.priority = priority;
    task.by_user = job.held;
    task.exclude = job.exclude;
    task.require = job.require;
    task.queued = time_.now();
  }
  hooks_.say(fmt::format("sbatch: job {} of {} tasks on {} nodes", job.id, job.tasks, job.nodes));
  const std::uint64_t id = job.id;
  time_.at(job.eligible, [this] { poll(); });
  jobs_.emplace(id, std::move(job));
  return id;
}

std::pair<SimJob*, std::uint32_t> Cluster::running(const std::string& name) {
  for (auto& [id, job] : jobs_)
    for (auto& [number, task] : job.state)
      if (job.name == name && task.state == JobState::Running) return {&job, number};
  return {nullptr, 0};
}

void Cluster::end(SimJob& job, std::uint32_t number, JobState state, int exit_code, int signal) {
  SimTask& task = job.state.at(number);
  task.state = JobState::Completing;
  task.resent = false;
  // The reason of a failure takes the place of the user's hold.
  if (state == JobState::Failed || state == JobState::Timeout) task.by_user = false;
  const std::uint64_t id = job.id;
  // A node that has finished is no longer shown; the others, and in the end all are.
  if (task.nodes.size() > 1)
    time_.after(shape_.completing / 2, [this, id, number] {
      const auto found = jobs_.find(id);
      if (found == jobs_.end()) return;
      SimTask& over = found->second.state.at(number);
      if (over.state == JobState::Completing) over.node_list = over.nodes.back().text;
    });
  time_.after(shape_.completing, [this, id, number, state, exit_code, signal] {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) return;
    SimTask& over = found->second.state.at(number);
    if (over.state != JobState::Completing) return;  // requeued
    over.state = state;
    if (over.counted_on) ++found->second.over_but_counted;
    over.node_list = compress_hostlist(over.nodes);
    over.exit_code = exit_code;
    over.signal = signal;
    over.ended = time_.now();
    hooks_.say(fmt::format("slurm: job {}_{} is {}", id, number, name_of(state)));
    found->second.eligible = time_.now() + random_.exponential(shape_.task_gap);
    time_.at(found->second.eligible, [this] { poll(); });
    time_.after(shape_.remembers, [this] { poll(); });
    for (auto& [other, job2] : jobs_) time_.at(job2.eligible, [this] { poll(); });
  });
}

// The tasks of an array wait in one record, which has the array's id. A task that starts gets a
// record and an id of its own; the last one takes over the array's, but not in 20.11 where
// slurmctld was restarted since.
void Cluster::split(SimJob& job, std::uint32_t number) {
  const auto waits = [](const auto& entry) {
    return entry.second.own == 0 && entry.second.state == JobState::Pending;
  };
  SimTask& task = job.state.at(number);
  if (task.own != 0) return;
  const auto waiting = std::count_if(job.state.begin(), job.state.end(), waits);
  task.own = waiting > 1 ? job.id + number : job.id;
  task.born = ++job.split;
  if (waiting != 2 || (shape_.release < 2205 && job.reloaded)) return;
  std::find_if(job.state.begin(), job.state.end(), waits)->second.own = job.id;
}

void Cluster::task_left(std::uint64_t id, std::uint32_t number, int exit_code, int signal) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  SimTask& task = found->second.state.at(number);
  task.processes = false;
  if (task.state != JobState::Running && task.state != JobState::Suspended) return;
  const bool good = exit_code == 0 && signal == 0;
  end(found->second, number, good ? JobState::Completed : JobState::Failed, exit_code, signal);
}

void Cluster::take_for_dead(std::uint64_t id, std::uint32_t number) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  const JobState state = found->second.state.at(number).state;
  if (state != JobState::Running && state != JobState::Suspended) return;
  end(found->second, number, JobState::NodeFail, 1, 0);
}

void Cluster::node_dies(const NodeName& node) {
  SimNode& entry = nodes_.at(node);
  if (!entry.up) return;
  entry.up = false;
  hooks_.say(fmt::format("{} dies", node.text));
  time_.after(kSlurmdTimeout, [this, node] {
    SimNode& dead = nodes_.at(node);
    if (dead.up) return;
    dead.told_down = true;
    for (auto& [id, job] : jobs_)
      for (auto& [number, task] : job.state)
        if (task.state == JobState::Running || task.state == JobState::Suspended)
          fail_node(job, number, node, true);
  });
  time_.after(shape_.repair, [this, node] { repair(node); });
}

// With --no-kill a job only loses the node; the loss of the first one, which runs the batch script,
// ends it.
void Cluster::fail_node(SimJob& job, std::uint32_t number, const NodeName& node,
                        bool node_is_dead) {
  SimTask& task = job.state.at(number);
  const auto lost = std::find(task.nodes.begin(), task.nodes.end(), node);
  if (lost == task.nodes.end()) return;
  const bool host = lost == task.nodes.begin();
  if (job.no_kill && task.nodes.size() > 1 && (!host || !node_is_dead)) {
    task.nodes.erase(lost);
    task.uncounted = true;
    task.node_list = compress_hostlist(task.nodes);
    if (!host) return;
    end(job, number, JobState::Failed, 0, 9);  // slurmd lives, and has killed the script
  } else if (job.requeue && !node_is_dead) {
    hooks_.killed(job, number, false);
    return put_back(job, number, JobState::NodeFail);
  } else if (node_is_dead) {
    end(job, number, JobState::NodeFail, 1, 0);
  } else {  // with accounts, slurmctld does not wait for what the script on this node died of
    const int signal = task.state == JobState::Suspended ? 9 : 15;
    end(job, number, JobState::NodeFail, 0, host && shape_.accounts ? 0 : signal);
  }
  hooks_.killed(job, number, false);
}

void Cluster::repair(const NodeName& node) {
  nodes_.at(node) = SimNode{};
  slow_.erase(node);
  poll();
}

void Cluster::repair_all() {
  for (auto& [name, node] : nodes_) node = SimNode{};
  slow_.clear();
}

void Cluster::set_slow(const NodeName& node, bool slow) {
  if (slow)
    slow_.insert(node);
  else
    slow_.erase(node);
}

void Cluster::jam(Instant until) {
  jammed_until_ = until;
  time_.at(until, [this] { poll(); });
}

bool Cluster::preempt(const std::string& name) {
  const auto [job, number] = running(name);
  if (job == nullptr) return false;
  hooks_.say(fmt::format("slurm: job {}_{} is preempted", job->id, number));
  end(*job, number, JobState::Preempted, 0, 15);
  hooks_.killed(*job, number, true);
  return true;
}

bool Cluster::cut_limit(const std::string& name, Duration rest) {
  const auto [job, number] = running(name);
  if (job == nullptr) return false;
  SimTask& task = job->state.at(number);
  task.ends_at = std::min(task.ends_at, time_.now() + rest);
  hooks_.say(fmt::format("slurm: job {}_{} now ends in {}", job->id, number,
                         format_duration(task.ends_at - time_.now())));
  time_.at(task.ends_at, [this] { poll(); });
  return true;
}

bool Cluster::may_start(const SimJob& job) const {
  if (job.eligible > time_.now() || jammed_until_ > time_.now()) return false;
  const auto live = std::count_if(job.state.begin(), job.state.end(), [](const auto& entry) {
    return is_live(entry.second.state) && !entry.second.uncounted;
  });
  if (live + std::ptrdiff_t{job.over_but_counted} >= std::ptrdiff_t{job.throttle}) return false;
  for (const auto& [id, other] : jobs_) {
    if (id == job.id) continue;
    const bool holds = (job.singleton && other.name == job.name && id < job.id) || id == job.after;
    for (const auto& [number, task] : other.state) {
      if (is_live(task.state) && (holds || other.name == job.name)) return false;
      if (holds && task.state == JobState::Pending) return false;
    }
  }
  return true;
}

// The highest priority first, then the longest in the queue, then tasks with a record of their own
// in front of the array's: a waiting task that anybody touched overtakes the others.
std::vector<std::uint32_t> Cluster::startable(const SimJob& job) const {
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, task] : job.state)
    if (task.state == JobState::Pending && task.priority != 0 && task.begin <= time_.now())
      numbers.push_back(number);
  const auto rank = [&job](std::uint32_t number) {
    const SimTask& task = job.state.at(number);
    return std::tuple(-task.priority, task.queued, task.own == 0 || number == 0, number);
  };
  std::sort(numbers.begin(), numbers.end(),
            [&rank](std::uint32_t a, std::uint32_t b) { return rank(a) < rank(b); });
  return numbers;
}

// Those that it requires, and the first others. Too few: it cannot start now.
std::vector<NodeName> Cluster::nodes_for(const SimJob& job, const SimTask& task) const {
  const auto in = [](const std::vector<NodeName>& list, const NodeName& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  std::vector<NodeName> chosen;
  const auto take = [&](bool required) {
    for (const auto& [name, node] : nodes_) {
      if (chosen.size() == job.nodes) break;
      if (node.told_down || !node.up || node.drained || in(task.exclude, name)) continue;
      if (in(task.require, name) == required) chosen.push_back(name);
    }
  };
  take(true);
  if (chosen.size() < task.require.size()) return {};
  take(false);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

void Cluster::start(SimJob& job, std::uint32_t number, std::vector<NodeName> nodes) {
  split(job, number);
  SimTask& task = job.state.at(number);
  task.state = JobState::Running;
  task.started = time_.now();
  task.ends_at = time_.now() + job.limit;
  task.nodes = std::move(nodes);
  task.node_list = compress_hostlist(task.nodes);
  task.processes = true;
  task.exit_code = task.signal = 0;
  task.by_user = task.uncounted = task.counted_on = false;
  hooks_.say(fmt::format("slurm: job {}_{} runs on {}", job.id, number, task.node_list));
  time_.at(task.ends_at, [this] { poll(); });
  hooks_.started(job, number);
}

// Once a task finds no nodes, slurmctld passes over the other tasks of its array.
bool Cluster::try_start(SimJob& job) {
  if (!may_start(job)) return false;
  const std::vector<std::uint32_t> numbers = startable(job);
  if (numbers.empty()) return false;
  std::vector<NodeName> nodes = nodes_for(job, job.state.at(numbers.front()));
  if (nodes.size() < job.nodes) return false;
  start(job, numbers.front(), std::move(nodes));
  return true;
}

void Cluster::poll() {
  for (auto& [id, job] : jobs_)
    for (auto& [number, task] : job.state)
      if (task.state == JobState::Running && task.ends_at <= time_.now()) {
        hooks_.say(fmt::format("slurm: job {}_{} is over its time limit", job.id, number));
        end(job, number, JobState::Timeout, 0, 15);
        hooks_.killed(job, number, true);
      }
  purge(shape_.remembers);
  for (auto& [id, job] : jobs_)
    if (try_start(job)) break;
}

// Record by record; what an array itself is kept in stays until all of its tasks are over.
void Cluster::purge(Duration age) {
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    SimJob& job = it->second;
    const bool over = std::all_of(job.state.begin(), job.state.end(), [](const auto& entry) {
      return core::is_terminal(entry.second.state);
    });
    bool forgotten = true;
    for (auto& [number, task] : job.state) {
      const bool base = job.array && (task.own == 0 || task.own == job.id);
      const bool old = core::is_terminal(task.state) && task.ended + age <= time_.now();
      if (!task.unlisted && old && (over || !base)) task.unlisted = task.purged = true;
      forgotten = forgotten && task.unlisted;
    }
    if (forgotten && shape_.accounts) accounts_.emplace(it->first, job);
    it = forgotten ? jobs_.erase(it) : std::next(it);
  }
}

// It reports once more to slurmdbd how the jobs that it remembers have ended, and counts again.
void Cluster::controller_restarts() {
  for (auto& [id, job] : jobs_) {
    job.over_but_counted = 0;
    for (auto& [number, task] : job.state) {
      if (is_live(task.state) && std::exchange(task.uncounted, false)) task.counted_on = true;
      if (core::is_terminal(task.state) && !task.unlisted) task.resent = true;
      const bool last = shape_.release < 2205 && job.array && task.own == id && task.nodes.empty();
      if (task.state != JobState::Pending || (task.own != 0 && !last)) continue;
      task.own = 0;
      job.reloaded = true;
    }
  }
}

}  // namespace stoker::sim
