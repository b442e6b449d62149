// step(): dispatch. Finds the run of the event, lets the handler of its kind work, and numbers the
// effects of the decision.
#include "core/step.hpp"

#include <fmt/format.h>

#include "common/overloaded.hpp"
#include "core/alerts/alert_facts.hpp"
#include "core/alerts/alerting.hpp"
#include "core/followers/followers.hpp"
#include "core/handlers.hpp"
#include "core/publish/spend.hpp"
#include "core/supply/calendar.hpp"
#include "core/supply/supply.hpp"
#include "core/timers.hpp"

namespace stoker::core {
namespace {

bool needs_run(const EventBody& body) {
  return std::visit(
      [](const auto& b) {
        using B = std::decay_t<decltype(b)>;
        return std::is_same_v<B, JobSeen> || std::is_same_v<B, JobGone> ||
               std::is_same_v<B, AgentSaid> || std::is_same_v<B, Digest> ||
               std::is_same_v<B, LeadSilent> || std::is_same_v<B, LeadSpeaks> ||
               std::is_same_v<B, Diagnosed> || std::is_same_v<B, LogFollowed> ||
               std::is_same_v<B, TokenLookedUp> || std::is_same_v<B, SwitchRefused> ||
               std::is_same_v<B, DiskFull> || std::is_same_v<B, FinishFileSeen> ||
               std::is_same_v<B, PolicyChanged> || std::is_same_v<B, RivalsSeen> ||
               std::is_same_v<B, JobProbed> || std::is_same_v<B, EndSeen> ||
               std::is_same_v<B, WeeklyDue> || std::is_same_v<B, FollowerEnded> ||
               std::is_same_v<B, FolderSilent>;
      },
      body);
}

// A follower's job is not one that trains: it never touches the run's own submissions.
void on_job_seen(Turn& turn, const JobSeen& seen) {
  if (followers::is_followers(turn.event.run, seen.token))
    followers::on_job_seen(turn, seen);
  else
    supply::on_job_seen(turn, seen);
}
void on_job_gone(Turn& turn, const JobGone& gone) {
  if (followers::is_followers(turn.event.run, gone.token))
    followers::on_job_gone(turn, gone);
  else
    supply::on_job_gone(turn, gone);
}

void on_looked_up(Turn& turn, const TokenLookedUp& answer) {
  if (followers::is_followers(turn.event.run, answer.token))
    followers::on_looked_up(turn, answer);
  else
    supply::on_looked_up(turn, answer);
}

void dispatch(Turn& turn) {
  std::visit(
      Overloaded{[&](const RunAdded& e) { on_run_added(turn, e.policy, e.by, e.newest); },
                 [&](const PolicyChanged& e) { on_run_added(turn, e.policy, e.by, {}); },
                 [&](const OperatorAsked& e) { on_operator(turn, e); },
                 [&](const SwitchRefused& e) { on_switch_refused(turn, e); },
                 [&](const DaemonStarted& e) { on_daemon_started(turn, e); },
                 [&](const DaemonStopping&) { turn.say("stokerd stops; trainings continue"); },
                 [&](const Tick&) {
                   if (turn.run != nullptr)
                     on_time(turn);
                   else
                     retry_effects(turn);
                 },
                 [&](const Quarantined& e) { on_quarantined(turn, e); },
                 [&](const JobSeen& e) { on_job_seen(turn, e); },
                 [&](const JobGone& e) { on_job_gone(turn, e); },
                 [&](const RivalsSeen& e) { supply::on_rivals(turn, e); },
                 [&](const JobProbed& e) { on_job_probed(turn, e); },
                 [&](const SchedulerBlind& e) { on_blind(turn, e); },
                 [&](const SchedulerSees&) { on_sees(turn); },
                 [&](const NodeSeen& e) { on_node_seen(turn, e); },
                 [&](const CalendarSeen& e) { supply::on_calendar(turn, e); },
                 [&](const AgentSaid& e) { on_agent_said(turn, e); },
                 [&](const Digest& e) { on_digest(turn, e); },
                 [&](const LeadSilent& e) { on_lead_silent(turn, e); },
                 [&](const LeadSpeaks& e) { on_lead_speaks(turn, e); },
                 [&](const Diagnosed& e) { on_diagnosed(turn, e); },
                 [&](const LogFollowed& e) { turn.say(fmt::format("{}: {}", e.path, e.detail)); },
                 [&](const EffectDone& e) { on_effect_done(turn, e); },
                 [&](const EffectFailed& e) { on_effect_failed(turn, e); },
                 [&](const EffectUnknown& e) { on_effect_unknown(turn, e); },
                 [&](const TokenLookedUp& e) { on_looked_up(turn, e); },
                 [&](const DiskLow& e) { on_disk(turn, e); },
                 [&](const DiskFull& e) { on_disk_full(turn, e); },
                 [&](const FolderSilent& e) { on_folder_silent(turn, e); },
                 [&](const FinishFileSeen& e) { on_finish_file(turn, e); },
                 [&](const EndSeen& e) { on_end_seen(turn, e); },
                 [&](const WeeklyDue& e) { on_weekly_due(turn, e); },
                 [&](const FollowerEnded& e) { followers::on_ended(turn, e); }},
      turn.event.body);
}

// Whose effect it is, also where an event is about the whole site: an operator's exclusion changes
// the waiting tasks of each run, and what failed is sent again for that run.
RunName owner_of(const SiteState& state, const Action& action, const RunName& event_run) {
  if (const auto* change = std::get_if<SetExclusions>(&action))
    for (const auto& [name, run] : state.runs)
      if (run.jobs.supply.contains(change->token)) return name;
  return run_of(action, event_run);
}

// Between two events the wall clock went on by something else than the time that passed.
void note_clock(SiteState& state, const Event& event) {
  constexpr Duration kStep = 1min;
  if (state.wall == WallTime{}) return;
  const Duration by = (event.wall - state.wall) - (event.at - state.now);
  if (by > kStep || by < -kStep) state.clock_step = ClockStep{event.at, by};
}

}  // namespace

EffectKey effect_key(const RunName& run, Sequence seq, std::size_t ordinal) {
  return EffectKey(fmt::format("{}/{}/{}", run.empty() ? "site" : run.text, seq.value, ordinal));
}

const RunName& run_of(const Action& action, const RunName& event_run) {
  const auto* control = std::get_if<WriteControl>(&action);
  return control == nullptr ? event_run : control->control.run;
}

// Free space is free for all runs, and people include nodes, and name runs, for all of them.
bool keeps_to_its_run(const Event& event) {
  return !event.run.empty() && !std::holds_alternative<DiskLow>(event.body) &&
         !std::holds_alternative<OperatorAsked>(event.body);
}

Stepped step(SiteState before, const Event& event) {
  Stepped stepped{std::move(before), {}};
  auto& [state, decision] = stepped;
  state.seq = state.seq.next();
  note_clock(state, event);
  state.now = std::max(state.now, event.at);
  state.wall = event.wall;
  Turn turn{state, event, decision};
  if (const auto* added = std::get_if<RunAdded>(&event.body);
      added != nullptr && added->policy.run == event.run)
    state.runs.try_emplace(event.run);
  const auto found = state.runs.find(event.run);
  const bool known = found != state.runs.end();
  if (known) turn.run = &found->second;
  if (turn.run != nullptr) {
    decision.from = state_name(turn.run->training);
    account(*turn.run, state.now);
  }

  if (turn.run == nullptr && needs_run(event.body))
    turn.reject(fmt::format("no run \"{}\" is under supervision ({})", event.run.text,
                            kind_of(event.body)));
  else
    dispatch(turn);
  if (known && state.runs.contains(event.run)) watch_spend(turn);

  if (turn.repeated.empty()) group_convictions(state, decision);  // which counts by ordinals
  if (known && state.runs.contains(event.run)) followers::advance(turn);
  if (known) {  // it may have left the list, or have another name now
    const auto still = state.runs.find(event.run);
    decision.to = still == state.runs.end() ? decision.from : state_name(still->second.training);
    if (still != state.runs.end()) add_facts(decision, still->second, event.wall);
  }
  for (std::size_t i = 0; i < decision.actions.size(); ++i) {
    const auto failures = turn.repeated.find(i);
    state.open[effect_key(event.run, state.seq, i)] =
        OpenEffect{owner_of(state, decision.actions[i], event.run), decision.actions[i],
                   failures == turn.repeated.end() ? 0 : failures->second};
  }
  return stepped;
}

}  // namespace stoker::core
