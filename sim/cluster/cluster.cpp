// The controller's truth.
#include "sim/cluster/cluster.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

#include "common/hostlist.hpp"

namespace stoker::sim {
namespace {

using core::JobState;
constexpr Duration kSlurmdTimeout = 300s;  // slurm.conf, default
constexpr Duration kCompleting = 5s;

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
  // The reason of a failure takes the place of the user's hold.
  if (state == JobState::Failed || state == JobState::Timeout) task.by_user = false;
  const std::uint64_t id = job.id;
  time_.after(kCompleting, [this, id, number, state, exit_code, signal] {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) return;
    SimTask& over = found->second.state.at(number);
    if (over.state != JobState::Completing) return;  // requeued
    over.state = state;
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
// record and an id of its own; the last one takes over the array's.
void Cluster::split(SimJob& job, std::uint32_t number) {
  const auto waits = [](const auto& entry) {
    return entry.second.own == 0 && entry.second.state == JobState::Pending;
  };
  SimTask& task = job.state.at(number);
  if (task.own != 0) return;
  const auto waiting = std::count_if(job.state.begin(), job.state.end(), waits);
  task.own = waiting > 1 ? job.id + number : job.id;
  task.born = ++job.split;
  if (waiting != 2) return;
  std::find_if(job.state.begin(), job.state.end(), waits)->second.own = job.id;
}

void Cluster::task_left(std::uint64_t id, std::uint32_t number, int exit_code) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  SimTask& task = found->second.state.at(number);
  task.processes = false;
  if (task.state != JobState::Running) return;
  end(found->second, number, exit_code == 0 ? JobState::Completed : JobState::Failed, exit_code, 0);
}

void Cluster::take_for_dead(std::uint64_t id, std::uint32_t number) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.state.at(number).state != JobState::Running) return;
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
    // --no-kill: only the loss of the first node, which runs the batch script, ends a job.
    for (auto& [id, job] : jobs_)
      for (auto& [number, task] : job.state)
        if (task.state == JobState::Running && task.nodes.front() == node) {
          end(job, number, JobState::NodeFail, 1, 0);
          hooks_.killed(job, number, false);
        }
  });
  time_.after(shape_.repair, [this, node] { repair(node); });
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
  const auto live = std::count_if(job.state.begin(), job.state.end(),
                                  [](const auto& entry) { return is_live(entry.second.state); });
  if (live >= static_cast<std::ptrdiff_t>(job.throttle)) return false;
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
std::map<std::uint32_t, SimTask>::iterator Cluster::next_task(SimJob& job) const {
  const auto rank = [](const auto& entry) {
    const auto& [number, task] = entry;
    return std::tuple(-task.priority, task.queued, task.own == 0 || number == 0, number);
  };
  auto best = job.state.end();
  for (auto it = job.state.begin(); it != job.state.end(); ++it) {
    const SimTask& task = it->second;
    if (task.state != JobState::Pending || task.priority == 0 || task.begin > time_.now()) continue;
    if (best == job.state.end() || rank(*it) < rank(*best)) best = it;
  }
  return best;
}

bool Cluster::try_start(SimJob& job) {
  if (!may_start(job)) return false;
  const auto next = next_task(job);
  if (next == job.state.end()) return false;
  std::vector<NodeName> chosen;
  for (const auto& [name, node] : nodes_) {
    if (chosen.size() == job.nodes) break;
    if (node.told_down || !node.up || node.drained) continue;
    const auto& never = next->second.exclude;
    if (std::find(never.begin(), never.end(), name) == never.end()) chosen.push_back(name);
  }
  if (chosen.size() < job.nodes) return false;
  SimTask& task = next->second;
  split(job, next->first);
  task.state = JobState::Running;
  task.started = time_.now();
  task.ends_at = time_.now() + job.limit;
  task.nodes = std::move(chosen);
  task.node_list = compress_hostlist(task.nodes);
  task.processes = true;
  task.exit_code = task.signal = 0;
  task.by_user = false;
  const std::uint32_t number = next->first;
  hooks_.say(fmt::format("slurm: job {}_{} runs on {}", job.id, number, task.node_list));
  time_.at(task.ends_at, [this] { poll(); });
  hooks_.started(job, number);
  return true;
}

void Cluster::poll() {
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    SimJob& job = it->second;
    bool forgotten = true;
    for (auto& [number, task] : job.state) {
      if (task.state == JobState::Running && task.ends_at <= time_.now()) {
        hooks_.say(fmt::format("slurm: job {}_{} is over its time limit", job.id, number));
        end(job, number, JobState::Timeout, 0, 15);
        hooks_.killed(job, number, true);
      }
      forgotten = forgotten && core::is_terminal(task.state) &&
                  task.ended + shape_.remembers <= time_.now();
    }
    it = forgotten ? jobs_.erase(it) : std::next(it);
  }
  for (auto& [id, job] : jobs_)
    if (try_start(job)) break;
}

}  // namespace stoker::sim
