// ViewDiff: what is new in an answer.
#include "core/engine/view_diff.hpp"

#include <set>

namespace stoker::core {

std::vector<Input> ViewDiff::good(const SchedulerView& view,
                                  const std::function<RunName(const Token&)>& run_of) {
  std::vector<Input> inputs;
  failures_ = 0;
  if (std::exchange(blind_, false)) inputs.push_back({{}, SchedulerSees{}, {}});
  for (const NodeSeen& node : view.nodes) {
    auto [known, fresh] = nodes_.try_emplace(node.node, node);
    if (!fresh && known->second == node) continue;
    known->second = node;
    inputs.push_back({{}, node, {}});
  }
  if (view.calendar && calendar_ != view.calendar) {
    calendar_ = view.calendar;
    inputs.push_back({{}, *view.calendar, {}});
  }
  std::set<std::pair<Token, JobId>> present;
  for (const JobSeen& job : view.jobs) {
    const auto key = std::pair(job.token, job.job);
    present.insert(key);
    auto [known, fresh] = jobs_.try_emplace(key, job);
    if (!fresh && known->second == job) continue;
    known->second = job;
    if (const RunName run = run_of(job.token); !run.empty()) inputs.push_back({run, job, {}});
  }
  for (const JobGone& gone : view.gone)
    if (const RunName run = run_of(gone.token); !run.empty()) inputs.push_back({run, gone, {}});
  for (const auto& [run, jobs] : view.rivals) {
    auto [known, fresh] = rivals_.try_emplace(run, jobs);
    if (!fresh && known->second == jobs) continue;
    known->second = jobs;
    inputs.push_back({run, RivalsSeen{jobs}, {}});
  }
  // Absence proves nothing; what the scheduler forgot is only forgotten here too.
  std::erase_if(jobs_, [&present](const auto& entry) { return !present.contains(entry.first); });
  return inputs;
}

std::vector<Input> ViewDiff::failed(const std::string& why) {
  ++failures_;
  if (blind_ || failures_ < limit_) return {};
  blind_ = true;
  return {{{}, SchedulerBlind{why}, {}}};
}

}  // namespace stoker::core
