#include "slurm/rivals.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "slurm/job_detail.hpp"

namespace stoker::slurm {
namespace {

// Why this job is in the run's way; "" = it is not.
std::string why(const QueueRow& row, const core::RunGrounds& grounds) {
  if (row.name == grounds.run.text) return "it has the run's name";
  for (const std::string& folder : grounds.folders)
    if (row.command.starts_with(folder)) return "its script lies in " + folder;
  return "";
}

}  // namespace

bool is_own(const QueueRow& row, const std::string& user) {
  return (user.empty() || row.user == user) && !token_of(row).empty();
}

std::map<RunName, std::vector<std::string>> find_rivals(
    const std::vector<QueueRow>& rows, const std::vector<core::RunGrounds>& grounds,
    const std::string& user, const std::set<std::uint64_t>& ours, const MayBeRival& may_be) {
  std::map<RunName, std::vector<std::string>> found;
  for (const core::RunGrounds& run : grounds) {
    std::map<std::uint64_t, const QueueRow*> jobs;  // the liveliest task stands for its array
    for (const QueueRow& row : rows) {
      if (core::is_terminal(row.state) || ours.count(row.id.job) > 0 || is_own(row, user) ||
          why(row, run).empty() || !may_be(row.user, run.group))
        continue;
      const QueueRow*& kept = jobs[row.id.job];
      if (kept == nullptr || row.state == core::JobState::Running) kept = &row;
    }
    std::vector<std::string>& lines = found[run.run];
    for (const auto& [id, row] : jobs)
      lines.push_back(
          fmt::format("job {} of {} ({}): {}", id, row->user, name_of(row->state), why(*row, run)));
  }
  return found;
}

}  // namespace stoker::slurm
