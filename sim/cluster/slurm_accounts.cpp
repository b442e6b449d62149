// SlurmText, sacct: what slurmdbd of 22.05 has of a job and all its tasks, also of those that
// slurmctld has forgotten. It has it at once here; how a real one lags is played in
// tests/slurm/fake.
#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "sim/cluster/slurm_text.hpp"

namespace stoker::sim {
namespace {

using core::JobState;

// What waits in the array's record, or was cancelled there. The last task there keeps the id of the
// rest only where slurmctld was restarted since.
bool is_rest(const SimJob& job, std::uint32_t number, const SimTask& task) {
  const bool ran = !task.nodes.empty() || task.attempt_before.state != JobState::Pending;
  const bool last = task.own == job.id && job.reloaded && !ran;
  return job.array && (number == 0 || task.own == 0 || last);
}

std::string rest_id(const SimJob& job) {
  std::string numbers;
  for (const auto& [number, task] : job.state)
    if (number != 0 && is_rest(job, number, task))
      numbers += fmt::format("{}{}", numbers.empty() ? "" : ",", number);
  return fmt::format("{}_[{}%{}]", job.id, numbers, job.throttle);
}

// Sent when the job's end began: only a script's own end had its code by then, and what was
// cancelled while it waited has that of the attempt before. A restarted slurmctld sends again what
// it has, and no longer who cancelled the job.
std::string state_and_exit(const SimAccount& row) {
  const bool own = row.state == JobState::Completed || row.state == JobState::Failed;
  const bool by = row.state == JobState::Cancelled && !row.resent;
  const bool waited = row.state == JobState::Cancelled && row.node_list.empty();
  const bool whole = own || waited || (row.resent && core::is_terminal(row.state));
  const int code = row.exit_code < 128 ? row.exit_code : row.exit_code - 128;  // as sacct does
  return fmt::format("{}{}\x1f{}:{}", name_of(row.state), by ? " by 1000" : "", whole ? code : 0,
                     whole ? row.signal : 0);
}

// The attempt that was requeued, and the one that is shown.
std::vector<SimAccount> attempts(const SimTask& task) {
  std::vector<SimAccount> rows;
  if (task.attempt_before.state != JobState::Pending) rows.push_back(task.attempt_before);
  const JobState state = task.state == JobState::Completing ? JobState::Running : task.state;
  rows.push_back({state, task.exit_code, task.signal, task.node_list, task.resent});
  return rows;
}

}  // namespace

// sacct -X -P -n -D -j IDS -o JobID,State,ExitCode,Submit,NodeList,User,JobName,Comment
os::CommandOutput SlurmText::accounts(const Argv& argv) {
  os::CommandOutput said;
  const auto add = [&said](const SimJob& job, const std::string& id, const SimAccount& row) {
    const bool over = row.state == JobState::Requeued || core::is_terminal(row.state);
    said.out += fmt::format("{}\x1f{}\x1f{}\x1f{}\x1ftrainer\x1f{}\x1f{}\n", id,
                            state_and_exit(row), epoch_seconds(job.submitted + 1s),
                            row.node_list.empty() ? "None assigned" : row.node_list, job.name,
                            over ? job.comment : "");
  };
  for (const std::uint64_t id : numbers_of(after(argv, "-j"))) {
    const auto known = cluster_.jobs().find(id);
    const auto past = cluster_.accounts().find(id);
    if (known == cluster_.jobs().end() && past == cluster_.accounts().end()) continue;
    const SimJob& job = known == cluster_.jobs().end() ? past->second : known->second;
    bool rest = false;  // it has one record, however many tasks
    for (const auto& [number, task] : job.state) {
      if (task.unlisted && !task.purged) continue;
      const bool waits_there = is_rest(job, number, task);
      if (waits_there && std::exchange(rest, true)) continue;
      const std::string row_id = waits_there ? rest_id(job) : full_id(job, number);
      for (const SimAccount& row : attempts(task)) add(job, row_id, row);
    }
  }
  return said;
}

}  // namespace stoker::sim
