// Invariants of runs without agents, against what their jobs really do.
#include <algorithm>
#include <fmt/format.h>

#include "core/step.hpp"
#include "sim/universe/checker.hpp"

namespace stoker::sim {
namespace {

constexpr Duration kNearWall = 40min;  // its margin, and the time to save that it is given
constexpr Duration kStill = 12min;     // after a lost node, and what follows it

std::string task_text(std::uint64_t job, std::uint32_t task) {
  return fmt::format("job {}_{}", job, task);
}

}  // namespace

// Never two that write at once, but for the next task of an array, which SLURM starts by itself,
// and what a file system that stood until a moment ago has kept still.
// What is over is not run again: once more where a person has resumed it, or where it could not be
// seen that it was over.
void Checker::script_begins(const ScriptJobs::Start& s, const Excuse& excuse) {
  const std::string here = task_text(s.job, s.task);
  for (const auto& [number, other] : scripts_->all())
    if (number != s.number && other.alive && other.job != s.job &&
        other.stage != ScriptJobs::Stage::Boot && excuse.unreadable + kStill < now_ &&
        !(other.orphan && is_array(other.job)))
      broken(fmt::format("{} begins while {} writes", here, task_text(other.job, other.task)));
  if (!completed_ || !scripts_->is_over() || completed_->job == s.job) return;
  if (std::exchange(completed_->resumed, false)) return;
  if (!completed_->reported || excuse.unreadable >= completed_->at) return;
  broken(fmt::format("{} begins although {} had completed the training {} before", here,
                     task_text(completed_->job, completed_->task),
                     format_duration(now_ - completed_->at)));
}

bool Checker::is_array(std::uint64_t job) const {
  const auto found = cluster_.jobs().find(job);
  return found == cluster_.jobs().end() ? array_ : found->second.array;
}

void Checker::script_completes(const ScriptJobs::Start& s) {
  completed_ = Completed{now_, s.job, s.task};
}

void Checker::check_script(const core::JournalRow& row, const core::SiteState& state,
                           const Excuse& excuse) {
  const auto found = state.runs.find(scenario_.policy.run);
  if (const auto* seen = std::get_if<core::JobSeen>(&row.event.body); seen && completed_)
    completed_->reported =
        completed_->reported || (seen->job.job == completed_->job &&
                                 (seen->job.task == completed_->task || seen->job.task == 0) &&
                                 seen->state == core::JobState::Completed);
  if (const auto* seen = std::get_if<core::JobSeen>(&row.event.body);
      seen != nullptr && core::is_terminal(seen->state))
    ends_seen_.insert(seen->job);
  if (const auto* gone = std::get_if<core::JobGone>(&row.event.body);
      gone != nullptr && completed_ && gone->job.job == completed_->job)
    completed_->reported = false;  // an end without a proof
  if (found != state.runs.end()) array_ = found->second.policy.scheduler.array_tasks > 1;
  const auto* asked = std::get_if<core::OperatorAsked>(&row.event.body);
  if (asked != nullptr && !row.decision.rejected && found != state.runs.end()) {
    const std::string& verb = asked->verb;
    const std::string& from = row.decision.from;
    const bool resumes =
        verb == "resume" || verb == "rollback" || (verb == "restart" && given_up(from));
    if (completed_ && resumes) completed_->resumed = true;
    if (verb != "exclude" && verb != "resume") ordered_ = found->second.newest;
    if (verb != "exclude" && verb != "save") asked_ = verb;
  }
  if (row.decision.to == "recovering" && row.decision.from == "suspect" && excuse.lines_delayed)
    for (const auto& [number, s] : scripts_->all())
      if (s.alive && !s.orphan) unheard_ = number;
  for (const core::Action& action : row.decision.actions)
    if (const auto* cancel = std::get_if<core::Cancel>(&action))
      check_script_cancel(row, *cancel, excuse);
  if (row.decision.to == "finished" && row.decision.from != "finished" && !completed_)
    broken("finished, but no job has completed the training: " + row.decision.reason);
}

// The next task of an array, where the end of the one before was not shown: without agents both
// might write, so the decider ends the newcomer (tests/golden/script_array.txt).
bool Checker::is_behind_unseen(const ScriptJobs::Start& s) const {
  return std::any_of(scripts_->all().begin(), scripts_->all().end(), [&](const auto& entry) {
    const ScriptJobs::Start& other = entry.second;
    return other.job == s.job && other.task < s.task &&
           !ends_seen_.contains({other.job, other.task});
  });
}

// A job that is well ends by an order of a person, before its wall, or where it was silent for want
// of logs; and where nothing is to run. What was so when it was decided stays so when it is
// repeated.
void Checker::check_script_cancel(const core::JournalRow& row, const core::Cancel& cancel,
                                  const Excuse& excuse) {
  if (cancel.pending_only) return;
  for (const auto& [number, s] : scripts_->all()) {
    if (s.job != cancel.job.job || (cancel.job.task != 0 && cancel.job.task != s.task) ||
        !scripts_->healthy(s))
      continue;
    if (given_up(row.decision.to)) unwanted_.insert(number);
    if (unwanted_.contains(number)) continue;
    const auto job = cluster_.jobs().find(s.job);
    if (job == cluster_.jobs().end()) continue;
    const SimTask& task = job->second.state.at(s.task);
    if (task.state != core::JobState::Running) continue;
    if (task.ends_at - now_ < kNearWall || ordered_ >= known_) continue;
    if (excuse.lines_delayed) unheard_ = s.number;
    if (unheard_ == s.number || is_behind_unseen(s)) continue;
    broken(fmt::format("cancels {}, which is well: {}", task_text(s.job, s.task),
                       row.decision.reason));
  }
}

// Half a day later it is finished, or what was asked for.
void Checker::rest_script(const core::RunState& run) {
  const std::string where = core::state_name(run.training);
  if (where == "stopped" && asked_ != "stop" && asked_ != "kill")
    stuck("stopped, and no person asked for it");
  if (where == "idle" && run.asked.paused && asked_ != "pause")
    stuck("paused, and no person asked for it");
  if (completed_ && scripts_->is_over() && where != "finished" && where != "stopped" &&
      !run.asked.paused && where != "held")
    stuck(fmt::format("{}, although the training was completed {} ago", where,
                      format_duration(now_ - completed_->at)));
}

}  // namespace stoker::sim
