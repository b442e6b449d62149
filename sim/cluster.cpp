// The controller's truth.
#include "sim/cluster.hpp"

#include <algorithm>
#include <fmt/format.h>

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
  for (std::uint32_t task = 1; task <= job.tasks; ++task) job.state[task].held = job.held;
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
  const std::uint64_t id = job.id;
  time_.after(kCompleting, [this, id, number, state, exit_code, signal] {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) return;
    SimTask& over = found->second.state.at(number);
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
  if (waiting != 2) return;
  std::find_if(job.state.begin(), job.state.end(), waits)->second.own = job.id;
}

// A waiting task that is cancelled leaves the array's record without a trace. When the record is
// empty, it stays as a cancelled row without a task number; but an array of which no task ever left
// the record shows all of them as cancelled.
void Cluster::cancel_waiting(SimJob& job, std::uint32_t only) {
  const bool whole =
      only == 0 && std::all_of(job.state.begin(), job.state.end(), [](const auto& t) {
        return t.second.own == 0 && !t.second.unlisted;
      });
  bool empty = true, touched = false;
  for (auto& [number, task] : job.state) {
    if (task.state != JobState::Pending) continue;
    if (only != 0 && number != only) {
      empty = empty && task.own != 0;
      continue;
    }
    task.state = JobState::Cancelled;
    task.ended = time_.now();
    if (task.own != 0 || whole || !job.array) continue;
    touched = task.unlisted = true;
  }
  if (touched && empty) job.remainder = true;
}

bool Cluster::cancel(std::uint64_t id, std::uint32_t only, bool pending_only) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return false;
  cancel_waiting(found->second, only);
  for (auto& [number, task] : found->second.state) {
    if (only != 0 && number != only) continue;
    const bool runs = task.state == JobState::Running || task.state == JobState::Suspended;
    if (runs && !pending_only) {
      hooks_.say(fmt::format("slurm: job {}_{} is cancelled", id, number));
      end(found->second, number, JobState::Cancelled, 0, 15);
      hooks_.killed(found->second, number, true);
    }
  }
  time_.after(shape_.remembers, [this] { poll(); });
  return true;
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

bool Cluster::try_start(SimJob& job) {
  if (!may_start(job)) return false;
  const auto next = std::find_if(job.state.begin(), job.state.end(), [this](const auto& entry) {
    const SimTask& task = entry.second;
    return task.state == JobState::Pending && !task.held && task.begin <= time_.now();
  });
  if (next == job.state.end()) return false;
  std::vector<NodeName> chosen;
  for (const auto& [name, node] : nodes_) {
    if (chosen.size() == job.nodes) break;
    if (node.told_down || !node.up || node.drained) continue;
    if (std::find(job.exclude.begin(), job.exclude.end(), name) == job.exclude.end())
      chosen.push_back(name);
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
