#include "core/operators/forget.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/followers/followers.hpp"
#include "core/handlers.hpp"
#include "core/sentence.hpp"

namespace stoker::core {
namespace {

// A job of the run that may still be there; null: none.
const supply::Submission* live_submission(const RunState& run) {
  for (const auto& [token, s] : run.jobs.supply)
    if (s.live()) return &s;
  return nullptr;
}

// Why the run cannot leave now, and what to do; "" = it can.
std::string why_it_stays(const Turn& turn, bool held_too) {
  const RunState& run = turn.r();
  const RunName& name = run.policy.run;
  const bool held = turn.kind() == TrainingKind::Held;
  const bool over = turn.kind() == TrainingKind::Finished || turn.kind() == TrainingKind::Stopped ||
                    (held && held_too);
  if (turn.kind() == TrainingKind::Stopping)
    return fmt::format("{} is stopping: ask again when it is stopped (stoker status {})", name.text,
                       name.text);
  if (!over)
    return fmt::format("{} is {} since {}: stop it first with `{}`", name.text,
                       state_name(run.training), format_rfc3339(run.since_wall),
                       command_text(name, "stop"));
  if (const supply::Submission* s = live_submission(run))
    return fmt::format("{} of {} has not ended yet: ask again when it has (stoker status {})",
                       s->job.job == 0 ? "a submission" : job_text(s->job), name.text, name.text);
  if (followers::has_jobs(run))
    return fmt::format(
        "the job of a follower of {} has not ended yet: ask again when it has (stoker status {})",
        name.text, name.text);
  return "";
}

bool is_writing(const SiteState& site, const RunName& name) {
  return std::any_of(site.open.begin(), site.open.end(),
                     [&](const auto& effect) { return effect.second.run == name; }) ||
         std::any_of(site.retries.begin(), site.retries.end(),
                     [&](const Retry& retry) { return retry.effect.run == name; });
}

std::size_t resolve_all(Turn& turn) {
  std::size_t count = 0;
  for (;;) {
    const auto& alerts = turn.site.alerts;
    const auto open = std::find_if(alerts.begin(), alerts.end(), [&](const auto& alert) {
      return alert.second.run == turn.name();
    });
    if (open == alerts.end()) return count;
    const std::string kind = open->second.kind, subject = open->second.subject;
    const std::size_t before = alerts.size();
    resolve(turn, AlertKind::named(kind), subject);
    count += before - alerts.size();
  }
}

}  // namespace

void on_forget(Turn& turn, const OperatorAsked& asked) {
  const RunName name = turn.name();
  const RunPolicy policy = turn.r().policy;
  const std::string sentence = fmt::format("forget requested by {}", who_text(asked));
  if (const std::string why = why_it_stays(turn, false); !why.empty())
    return turn.reject(fmt::format("{}; {}", sentence, why));
  turn.say(fmt::format(
      "{}; {} ({}) is no longer on stoker's list; its files stay in {}; `stoker "
      "run {}` takes it up again",
      sentence, name.text, state_name(turn.r().training), policy.directory, policy.config_path));
  if (!policy.alerts.dead_man_url_file.empty())
    turn.say("its dead-man's switch is no longer called: pause the check at the receiver");
  if (const std::size_t closed = resolve_all(turn); closed > 0)
    turn.say(fmt::format("{} closed", count_text(closed, "open alert")));
  // What was still to be written for it is not wanted any more.
  std::erase_if(turn.site.open, [&](const auto& effect) { return effect.second.run == name; });
  std::erase_if(turn.site.retries, [&](const Retry& retry) { return retry.effect.run == name; });
  turn.run = nullptr;
  turn.site.runs.erase(name);
}

void on_rename(Turn& turn, const OperatorAsked& asked) {
  const RunName name = turn.name();
  const auto given = asked.arguments.find("to");
  const RunName to(given == asked.arguments.end() ? "" : given->second);
  const std::string sentence = fmt::format("rename requested by {}", who_text(asked));
  if (to.empty()) return turn.reject(sentence + "; the new name is missing");
  if (turn.site.runs.contains(to))
    return turn.reject(fmt::format("{}; there is a run \"{}\" already", sentence, to.text));
  if (const std::string why = why_it_stays(turn, true); !why.empty())
    return turn.reject(fmt::format("{}; {}", sentence, why));
  if (is_writing(turn.site, name))
    return turn.reject(
        fmt::format("{}; an order of {} is still being written: ask again in a "
                    "minute",
                    sentence, name.text));
  auto node = turn.site.runs.extract(name);
  node.key() = to;
  turn.run = &turn.site.runs.insert(std::move(node)).position->second;
  RunState& run = turn.r();
  run.policy.run = to;
  if (!run.asked.control.run.empty()) run.asked.control.run = to;
  followers::on_renamed(run);
  for (auto& [id, alert] : turn.site.alerts)  // its id stays: receivers know the incident by it
    if (alert.run == name) alert.run = to;
  for (Silence& silence : turn.site.silences)
    if (const auto match = silence.match.find("run");
        match != silence.match.end() && match->second == name.text)
      match->second = to.text;
  turn.say(
      fmt::format("{}; {} is called {} from now on; its files stay in {}; write `run: {}` and "
                  "`directory: {}` into {}",
                  sentence, name.text, to.text, run.policy.directory, to.text, run.policy.directory,
                  run.policy.config_path));
}

std::optional<NameChange> name_change_of(const JournalRow& row) {
  const auto* asked = std::get_if<OperatorAsked>(&row.event.body);
  if (asked == nullptr || row.decision.rejected) return std::nullopt;
  if (asked->verb == "forget") return NameChange{row.seq, row.event.run, {}};
  const auto to = asked->arguments.find("to");
  if (asked->verb != "rename" || to == asked->arguments.end()) return std::nullopt;
  return NameChange{row.seq, row.event.run, RunName(to->second)};
}

RunName current_name(const RunName& name, Sequence seq, const std::vector<NameChange>& changes) {
  RunName current = name;
  for (const NameChange& change : changes)
    if (change.from == current && change.seq >= seq) {
      if (change.to.empty()) return {};
      current = change.to;
      seq = change.seq;
    }
  return current;
}

}  // namespace stoker::core
