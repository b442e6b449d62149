// scancel, as slurmctld of 22.05 takes it.
#include <algorithm>
#include <fmt/format.h>

#include "sim/cluster/cluster.hpp"

namespace stoker::sim {
namespace {

using core::JobState;

bool runs(const SimTask& task) {
  return task.state == JobState::Running || task.state == JobState::Suspended;
}

}  // namespace

// Waiting tasks that are cancelled by their numbers leave the array's record without a trace. When
// it is empty, it stays as a cancelled row without a task number.
void Cluster::take_out(SimJob& job, const Record& record, std::uint32_t only) {
  SimTask rest = job.state.at(record.front());
  bool empty = true;
  for (const std::uint32_t number : record) {
    SimTask& task = job.state.at(number);
    if (only != 0 && number != only) {
      empty = false;
      continue;
    }
    task.state = JobState::Cancelled;
    task.ended = time_.now();
    task.unlisted = true;
  }
  if (!empty) return;
  rest.state = JobState::Cancelled;
  rest.own = job.id;
  rest.started = rest.ends_at = rest.ended = time_.now();
  job.state[0] = rest;
}

void Cluster::cancel_record(SimJob& job, const Record& record) {
  for (const std::uint32_t number : record) {
    SimTask& task = job.state.at(number);
    if (task.state == JobState::Pending) {
      task.state = JobState::Cancelled;
      task.started = task.ends_at = task.ended = time_.now();
    } else if (runs(task)) {
      hooks_.say(fmt::format("slurm: job {}_{} is cancelled", job.id, number));
      end(job, number, JobState::Cancelled, 0, task.state == JobState::Suspended ? 9 : 15);
      hooks_.killed(job, number, true);
    }
  }
}

// The whole array is cancelled record by record, and its waiting tasks stay to be seen. With
// --state=PENDING, scancel names the tasks of the array's record by their numbers: before 24.11 all
// of them, also when it was asked for one.
bool Cluster::cancel(std::uint64_t id, std::uint32_t only, bool pending_only) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return false;
  SimJob& job = found->second;
  bool lives = false;
  for (const Record& record : records_of(job)) {
    const SimTask& first = job.state.at(record.front());
    const bool waits = first.state == JobState::Pending;
    const bool all = only == 0 || (record.front() == 0 && waits);  // an empty record has any number
    if (!all && std::find(record.begin(), record.end(), only) == record.end()) continue;
    lives = lives || waits || runs(first);
    if (pending_only && !waits) continue;
    if (waits && job.array && first.own == 0 && (only != 0 || pending_only))
      take_out(job, record, pending_only && shape_.release < 2411 ? 0 : only);
    else
      cancel_record(job, record);
  }
  time_.after(shape_.remembers, [this] { poll(); });
  return lives;
}

void Cluster::signal(std::uint64_t id, std::uint32_t only) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || !hooks_.signalled) return;
  for (const auto& [number, task] : found->second.state)
    if (task.state == JobState::Running && (only == 0 || only == number))
      hooks_.signalled(found->second, number);
}

}  // namespace stoker::sim
