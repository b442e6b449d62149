// PULSE lines, in the words that the BLOOM chronicles used.
#include "core/publish/pulse.hpp"

#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "core/nodes/spares.hpp"
#include "core/supply/command.hpp"

namespace stoker::core {
namespace {

std::string stamp(WallTime wall) {
  std::string text = format_rfc3339(wall);  // 2022-05-01T03:56:11Z
  text[10] = ' ';
  text.pop_back();
  return text;
}

std::string slurm_duration(Duration d) {  // D-HH:MM:SS
  const auto s = std::chrono::duration_cast<std::chrono::seconds>(d).count();
  const auto days = s / 86400;
  const std::string clock = fmt::format("{:02}:{:02}:{:02}", s / 3600 % 24, s / 60 % 60, s % 60);
  return days == 0 ? clock : fmt::format("{}-{}", days, clock);
}

std::string where(const RunState& run) {
  return run.policy.scheduler.partition.empty()
             ? "on this host"
             : fmt::format("on '{}' partition", run.policy.scheduler.partition);
}

std::string numbers(const RunState& run, Instant now) {
  std::string text;
  const Progress& p = run.health.progress;
  if (p.iteration.value != 0)
    text += p.total == 0 ? fmt::format(", iteration {}", p.iteration.value)
                         : fmt::format(", iteration {}/{}", p.iteration.value, p.total);
  if (p.loss) text += fmt::format(", loss {:.4f}", *p.loss);
  if (run.health.checkpoint.iteration.value != 0)
    text += fmt::format(", checkpoint {} of {} ago", run.health.checkpoint.iteration.value,
                        format_duration(now - run.health.checkpoint.at));
  return text;
}

// Said when the nodes will not last for a week.
std::string spares(const SiteState& state, const RunState& run, Instant now) {
  if (!run.live || run.live->attempt_nodes.empty()) return "";
  const auto f =
      forecast_spares(state.ledger, static_cast<std::uint32_t>(run.live->attempt_nodes.size()),
                      run.policy.recover.exclude_for, now);
  if (!f.out_in || f.lost_per_day <= 0 || *f.out_in > 7 * 24h) return "";
  return ", " + spares_text(to_seconds(*f.out_in));
}

std::string alert_text(const RunState& run, const std::string& what) {
  return fmt::format("***ALERT: {} {} {}***", run.policy.run.text, what, run.why);
}

std::string waiting_text(const RunState& run) {
  for (const auto& [token, s] : run.jobs.supply) {
    if (!s.live() || s.waiting() == 0) continue;
    const std::uint32_t first = s.array_tasks - s.waiting() + 1;
    const std::string tasks = first == s.array_tasks
                                  ? fmt::format("{}", first)
                                  : fmt::format("[{}-{}%1]", first, s.array_tasks);
    return fmt::format("PULSE: {} is waiting to be scheduled ({}_{} {})", run.policy.run.text,
                       s.job.job, tasks, where(run));
  }
  return fmt::format("PULSE: {} is being submitted", run.policy.run.text);
}

}  // namespace

std::string pulse_line(const SiteState& state, const RunState& run, Instant now, WallTime wall) {
  const std::string head = fmt::format("[{}] ", stamp(wall));
  const std::string name = run.policy.run.text;
  switch (static_cast<int>(run.training.index())) {
    case 1: return head + waiting_text(run);  // queued
    case 7: return head + alert_text(run, "is HELD, not RUNNING or SCHEDULED!");
    case 8: return head + fmt::format("PULSE: {} is finished{}", name, numbers(run, now));
    case 9: return head + alert_text(run, "is stopped, not RUNNING or SCHEDULED!");
    case 0: return head + alert_text(run, "is not RUNNING or SCHEDULED!");
    default: break;
  }
  const supply::Submission* s = running_submission(run);
  const JobId job = s == nullptr ? JobId{} : JobId{s->job.job, running_task(*s)};
  std::vector<NodeName> nodes;
  if (run.live) nodes = run.live->attempt_nodes.empty() ? run.live->nodes : run.live->attempt_nodes;
  std::string since = format_rfc3339(run.since_wall);
  since.pop_back();
  return head +
         fmt::format("PULSE: {} is {} for {} since {} ({} {} ({})){}{}", name,
                     std::string_view(state_name(run.training)) == "training"
                         ? "running"
                         : state_name(run.training),
                     slurm_duration(now - run.since), since, job.text(), where(run),
                     compress_hostlist(nodes), numbers(run, now),
                     state.blind_since ? ", the scheduler does not answer" : "") +
         spares(state, run, now);
}

}  // namespace stoker::core
