// Where squeue and scontrol differ. Jobs that are expected and that the queue's answer does not
// hold are asked for by their id: what scontrol shows is there all the same, what it denies twice
// is gone. And a squeue that answers from the past does not show that a job was suspended.
#include <algorithm>
#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "slurm/accounting.hpp"
#include "slurm/rivals.hpp"
#include "slurm/slurm_scheduler.hpp"

namespace stoker::slurm {
namespace {

constexpr Duration kDenialsApart = 60s;
constexpr std::size_t kMissingAPass = 2;  // the others next time: the hour's questions are few

}  // namespace

bool SlurmScheduler::ask_accounts(const core::JobExpected& job, core::SchedulerView& view) {
  const bool accounts = [this] {
    const std::scoped_lock lock(mutex_);
    return accounts_;
  }();
  if (!accounts || job.since == WallTime{}) return false;
  const Duration age = std::max<Duration>(options_.wall() - job.since, Duration{}) + 1min;
  const auto output = controller_->question(accounting_command(job.job.job, age));
  if (!output || !output->status.ok()) return false;
  const auto rows = parse_accounting(output->out);
  if (!rows) return false;
  auto ends = proven_ends(*rows, job.token, options_.user, job.since - 1min);
  for (core::JobSeen& end : ends) {
    end.cancelled_by_us =
        end.state == core::JobState::Cancelled && was_cancelled_here(end.job, end.nodes.empty());
    view.jobs.push_back(std::move(end));
  }
  return !ends.empty();
}

// What squeue leaves out and scontrol shows is seen all the same, as far as it lives: a task that
// is suspended meanwhile would be taken for a silent one.
void SlurmScheduler::show_hidden(const core::JobExpected& job, core::SchedulerView& view) {
  const auto records = controller_->details(JobId{job.job.job, 0});
  if (!records) return;
  for (const JobDetail& record : *records) {
    const bool lives =
        record.state == core::JobState::Running || record.state == core::JobState::Suspended;
    auto nodes = expand_hostlist(record.nodes);
    if (!lives || record.id.job != job.job.job || !nodes || nodes->empty()) continue;
    core::JobSeen seen;
    seen.token = job.token;
    seen.job = {record.id.job, std::max(1u, record.id.task)};
    seen.restart = record.restarts;
    seen.state = record.state;
    seen.nodes = NodeList(std::move(*nodes));
    if (record.state == core::JobState::Running) seen.ends_at = record.ends;
    view.jobs.push_back(std::move(seen));
  }
}

bool SlurmScheduler::is_suspended(const JobId& job) {
  const auto records = controller_->details(job);
  return records && std::any_of(records->begin(), records->end(), [&job](const JobDetail& record) {
           return record.id == job && record.state == core::JobState::Suspended;
         });
}

void SlurmScheduler::correct(std::vector<QueueRow>& rows) {
  std::set<JobId> doubted;
  {
    const std::scoped_lock lock(mutex_);
    doubted = doubted_;
  }
  for (QueueRow& row : rows) {
    if (row.state != core::JobState::Running || !doubted.contains(row.id)) continue;
    if (is_suspended(row.id)) {
      row.state = core::JobState::Suspended;
      continue;
    }
    const std::scoped_lock lock(mutex_);
    doubted_.erase(row.id);
  }
}

// Empty: not proven. Else a sentence's end.
std::string SlurmScheduler::why_gone(const core::JobExpected& job, core::SchedulerView& view) {
  const auto holder = controller_->holder(job.job.job, job.token);
  if (!holder) return "";
  if (*holder == IdBelongs::ToToken) {
    denials_.erase(job.token);  // it is there, the queue's answer has kept it from us
    show_hidden(job, view);
    return "";
  }
  if (*holder == IdBelongs::ToAnother) {
    denials_[job.token].last = options_.now();
    return fmt::format("its id {} belongs to another job now", job.job.job);
  }
  const Instant now = options_.now();
  if (ask_accounts(job, view)) {
    denials_[job.token] = Denial{now, now};
    return "";
  }
  auto [denial, first] = denials_.try_emplace(job.token, Denial{now, now});
  denial->second.last = now;
  if (first || now - denial->second.first < kDenialsApart) return "";
  const auto name = cluster_name();
  const std::scoped_lock lock(mutex_);
  if (!name || name->empty() || *name != cluster_) return "";
  return fmt::format("SLURM of {} has answered twice that it does not know the id {}", cluster_,
                     job.job.job);
}

void SlurmScheduler::look_for_missing(const std::vector<QueueRow>& rows,
                                      core::SchedulerView& view) {
  std::vector<core::JobExpected> expected;
  {
    const std::scoped_lock lock(mutex_);
    expected = expected_;
  }
  std::set<Token> present;
  for (const QueueRow& row : rows)
    if (is_own(row, options_.user)) present.insert(token_of(row));
  std::erase_if(denials_, [&](const auto& entry) { return present.count(entry.first) > 0; });
  std::vector<std::pair<Instant, const core::JobExpected*>>
      missing;  // and when they were asked for
  std::map<Token, Instant> asked;
  for (const core::JobExpected& job : expected) {
    if (job.job.job == 0 || present.count(job.token) > 0) continue;
    const auto before = asked_.find(job.token);
    if (before != asked_.end()) asked.insert(*before);
    const auto denial = denials_.find(job.token);
    if (denial != denials_.end() && options_.now() - denial->second.last < kDenialsApart) continue;
    missing.emplace_back(before == asked_.end() ? Instant::min() : before->second, &job);
  }
  std::sort(missing.begin(), missing.end());
  if (missing.size() > kMissingAPass) missing.resize(kMissingAPass);
  for (const auto& [before, job] : missing) {
    asked[job->token] = options_.now();
    if (std::string why = why_gone(*job, view); !why.empty())
      view.gone.push_back({job->token, job->job, std::move(why)});
  }
  asked_ = std::move(asked);
}

}  // namespace stoker::slurm
