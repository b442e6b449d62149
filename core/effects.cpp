// Results of effects. A submit is special: its unknown answer is searched for. Everything else is
// idempotent and simply repeated: at once when the answer is unknown, with growing pauses when it
// failed. A control or a lost cancel is repeated as it stands now, not as it stood then.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/followers/followers.hpp"
#include "core/handlers.hpp"
#include "core/nodes/drain.hpp"
#include "core/supply/command.hpp"
#include "core/supply/script.hpp"
#include "core/supply/supply.hpp"
#include "core/timers.hpp"

namespace stoker::core {
namespace {

constexpr std::uint32_t kPageAfter = 4;
constexpr Duration kNoRoomPause = 60s;  // room is noticed long before (DiskFull)

supply::Submission* submission_of(Turn& turn, const Action& action) {
  const auto* submit = std::get_if<Submit>(&action);
  if (submit == nullptr || turn.run == nullptr) return nullptr;
  const auto found = turn.r().jobs.supply.find(submit->token);
  return found == turn.r().jobs.supply.end() ? nullptr : &found->second;
}

// Takes the effect out of the open ones; empty when it is not known (a repeated result).
std::optional<OpenEffect> take(Turn& turn, const EffectKey& key) {
  const auto found = turn.site.open.find(key);
  if (found == turn.site.open.end()) return std::nullopt;
  OpenEffect effect = std::move(found->second);
  turn.site.open.erase(found);
  return effect;
}

// Of a follower: its submission, the search for it, or the removal of an old folder did not
// succeed; `proven`: it did not happen.
bool is_of_follower(Turn& turn, const Action& action, const std::string& why, bool proven) {
  const auto* follower = std::get_if<RunFollower>(&action);
  const auto* search = std::get_if<LookUpToken>(&action);
  if (const auto* folder = std::get_if<RemoveFollowFolder>(&action)) {
    if (turn.run != nullptr) followers::on_folder_not_removed(turn, *folder, why, proven);
    return true;
  }
  if (search != nullptr && !followers::is_followers(turn.event.run, search->token))
    search = nullptr;
  if (follower == nullptr && search == nullptr) return false;
  if (turn.run == nullptr) return true;
  if (follower != nullptr)
    followers::on_not_submitted(turn, *follower, why, proven);
  else
    followers::on_not_looked_up(turn, search->token);
  return true;
}

bool is_file_of_run(const Action& action) {
  return std::holds_alternative<WriteOrders>(action) ||
         std::holds_alternative<WriteControl>(action) ||
         std::holds_alternative<ConsumeSwitch>(action);
}

// Its failure is reported by the submission behind it (EffectFailed::burns), once.
bool is_moving_aside(const Action& action) {
  const auto* kill = std::get_if<SetKillSwitch>(&action);
  return kill != nullptr && !kill->there;
}

// A second, doubling. Exclusions of waiting tasks and drains are a wish: a scheduler that does not
// answer for a night is asked, and journalled, six times an hour.
Duration pause_after(const Action& action, std::uint32_t failures) {
  const bool wish =
      std::holds_alternative<SetExclusions>(action) || std::holds_alternative<DrainNode>(action);
  const Duration longest = wish ? 10min : 60s;
  Duration pause = 1s;
  for (std::uint32_t i = 1; i < failures && pause < longest; ++i) pause *= 2;
  return std::min(pause, longest);
}

// A failure that lasts for hours is reported at its 1st, 2nd, 4th, 8th … failure.
bool is_told(std::uint32_t failures) {
  return (failures & (failures - 1)) == 0;
}

// The task of a training that goes on: its restart came after the cancel was decided.
bool is_of_training(const RunState* run, const Cancel& cancel) {
  if (run == nullptr || !run->live || cancel.whole_array || cancel.job != run->live->job)
    return false;
  const TrainingKind kind = kind_of(run->training);
  return kind == TrainingKind::Starting || kind == TrainingKind::Training ||
         kind == TrainingKind::Suspect;
}

// Of an array whose task was taken up since: its training goes on, only what waits is not wanted.
bool is_of_training_array(const RunState* run, const Cancel& cancel) {
  Cancel task = cancel;
  task.whole_array = false;
  if (run != nullptr && run->live && cancel.job.job == run->live->job.job)
    task.job = run->live->job;
  return cancel.whole_array && run != nullptr && !has_agents(run->policy) &&
         is_of_training(run, task);
}

// True when the request is no longer wanted: its job or its tasks are gone, its training goes on,
// no agent is to leave any more, the rollback was given up, or another order or list took its
// place.
bool is_stale(const Turn& turn, const Action& action) {
  const RunState* run = turn.run;
  if (const auto* write = std::get_if<WriteOrders>(&action))
    return run == nullptr || write->orders.number != run->asked.order ||
           (write->orders.resume.mode == wire::ResumeMode::Exact &&
            run->asked.exact_order != write->orders.number);
  if (const auto* cancel = std::get_if<Cancel>(&action)) return is_of_training(run, *cancel);
  if (const auto* signal = std::get_if<SignalJob>(&action))
    return run == nullptr || !run->live || run->live->job != signal->job;
  if (const auto* kill = std::get_if<SetKillSwitch>(&action))
    return run == nullptr ||
           (kill->there && !std::holds_alternative<training::Stopping>(run->training));
  if (const auto* probe = std::get_if<ProbeJob>(&action))
    return run == nullptr || !run->live || run->live->job != probe->job;
  if (const auto* drain = std::get_if<DrainNode>(&action))
    return is_drain_stale(turn.site, *drain, turn.now());
  if (std::holds_alternative<SetResumePoint>(action))
    return run == nullptr || !run->asked.going_back;
  if (std::holds_alternative<LookAtTree>(action)) return run == nullptr || !script::looks(*run);
  const auto* change = std::get_if<SetExclusions>(&action);
  if (change == nullptr) return false;
  if (run == nullptr) return true;
  const auto found = run->jobs.supply.find(change->token);
  return found == run->jobs.supply.end() || found->second.waiting() == 0 ||
         found->second.exclude != change->nodes;
}

// An order to a generation that is over is void; one about the run is not.
bool is_wanted(const RunState& run) {
  return run.live || !run.asked.control.halt.empty() || run.asked.control.lifts.value != 0;
}

void schedule(Turn& turn, OpenEffect effect, Duration pause) {
  const std::string kind = kind_of(effect.action);
  // The newest control holds everything, the newest order replaces one that was never written.
  if (kind == WriteControl::kKind || kind == WriteOrders::kKind)
    std::erase_if(turn.site.retries, [&](const Retry& r) {
      return r.effect.run == effect.run && kind_of(r.effect.action) == kind;
    });
  std::erase_if(turn.site.retries, [&](const Retry& r) {  // asked for twice is tried once
    if (r.effect.run != effect.run || !(r.effect.action == effect.action)) return false;
    effect.failures = std::max(effect.failures, r.effect.failures);
    return true;
  });
  turn.site.retries.push_back(Retry{turn.now() + pause, std::move(effect)});
}

}  // namespace

void on_effect_done(Turn& turn, const EffectDone& done) {
  const auto effect = take(turn, done.key);
  if (!effect) return;
  if (supply::Submission* s = submission_of(turn, effect->action))
    supply::on_submit_done(turn, *s, done.job);
  if (turn.run != nullptr && effect->failures > 0 && is_file_of_run(effect->action))
    note_room(turn);
  if (const auto* point = std::get_if<SetResumePoint>(&effect->action); point && turn.run)
    script::on_resume_point(turn, *point, "");
  if (std::holds_alternative<LookAtTree>(effect->action) && turn.run)
    script::on_tree(turn, done.detail);
  if (const auto* kill = std::get_if<SetKillSwitch>(&effect->action); kill && turn.run)
    script::on_kill_switch(turn, *kill, done.detail);
  if (const auto* drain = std::get_if<DrainNode>(&effect->action))
    on_drain_done(turn, *drain, done.detail);
  if (const auto* follower = std::get_if<RunFollower>(&effect->action); follower && turn.run)
    followers::on_submitted(turn, *follower, done.job);
  if (const auto* folder = std::get_if<RemoveFollowFolder>(&effect->action); folder && turn.run)
    followers::on_folder_removed(turn, *folder);
  if (effect->failures >= kPageAfter) {
    turn.say(fmt::format("{} succeeded after {} failures", done.action, effect->failures));
    resolve(turn, "effect_failed", done.action);
  }
}

void on_effect_failed(Turn& turn, const EffectFailed& failed) {
  auto effect = take(turn, failed.key);
  if (!effect) return;
  if (supply::Submission* s = submission_of(turn, effect->action))
    return supply::on_submit_failed(turn, *s, failed);
  if (is_of_follower(turn, effect->action, failed.why, true)) return;
  if (const auto* search = std::get_if<LookUpToken>(&effect->action)) {
    turn.say(fmt::format("the search for the token failed: {}", failed.why));
    return supply::on_look_up_failed(turn, search->token, failed.why);
  }
  if (is_moving_aside(effect->action))
    return turn.say(fmt::format("the kill switch cannot be moved aside: {}", failed.why));
  if (const auto* point = std::get_if<SetResumePoint>(&effect->action); point && turn.run)
    return script::on_resume_point(turn, *point, failed.why);
  if (std::holds_alternative<LookAtTree>(effect->action) && turn.run)
    return script::on_tree_unseen(turn, failed.why);
  if (const auto* drain = std::get_if<DrainNode>(&effect->action);
      drain != nullptr && !failed.by_hand.empty())
    return on_drain_refused(turn, *drain, failed);
  ++effect->failures;
  const Duration pause =
      failed.no_room ? kNoRoomPause : pause_after(effect->action, effect->failures);
  if (is_told(effect->failures))
    turn.say(fmt::format("{} failed ({}){}; trying again in {}", failed.action, failed.why,
                         effect->failures < 4 ? "" : fmt::format(", time {}", effect->failures),
                         format_duration(pause)));
  if (failed.no_room && turn.run != nullptr && is_file_of_run(effect->action)) note_no_room(turn);
  if (effect->failures == kPageAfter && !failed.no_room)
    raise(turn, {Severity::Critical, "effect_failed",
                 fmt::format("{} failed {} times: {}", failed.action, effect->failures, failed.why),
                 "stoker doctor", failed.action});
  schedule(turn, std::move(*effect), pause);
}

void on_effect_unknown(Turn& turn, const EffectUnknown& unknown) {
  auto effect = take(turn, unknown.key);
  if (!effect) return;
  if (supply::Submission* s = submission_of(turn, effect->action))
    return supply::on_submit_unknown(turn, *s, unknown.why);
  if (is_of_follower(turn, effect->action, unknown.why, false)) return;
  if (const auto* search = std::get_if<LookUpToken>(&effect->action))  // it has its own pace
    return supply::on_look_up_failed(turn, search->token, unknown.why);
  ++effect->failures;
  if (is_told(effect->failures))
    turn.say(fmt::format("no answer to {} ({}); trying again", unknown.action, unknown.why));
  const Duration pause =
      effect->failures == 1 ? Duration(0s) : pause_after(effect->action, effect->failures);
  schedule(turn, std::move(*effect), pause);
  retry_effects(turn);
}

std::optional<Instant> retry_at(const SiteState& site, const RunState& run) {
  std::optional<Instant> at;
  for (const Retry& retry : site.retries)
    if (retry.effect.run == run.policy.run) keep_earliest(at, retry.at);
  return at;
}

void retry_effects(Turn& turn) {
  std::vector<Retry> due;
  std::erase_if(turn.site.retries, [&](const Retry& retry) {
    const bool mine = retry.effect.run == turn.event.run && retry.at <= turn.now();
    if (mine) due.push_back(retry);
    return mine;
  });
  for (Retry& retry : due) {
    Action action = retry.effect.action;
    if (auto* control = std::get_if<WriteControl>(&action)) {
      if (turn.run == nullptr || !is_wanted(turn.r())) continue;
      control->control = turn.r().asked.control;
      control->control.epoch = turn.site.epoch;
    }
    if (auto* cancel = std::get_if<Cancel>(&action);
        cancel && is_of_training_array(turn.run, *cancel))
      cancel->pending_only = true;
    if (is_stale(turn, action)) continue;
    const std::size_t before = turn.decision.actions.size();
    if (is_told(retry.effect.failures))
      turn.say(fmt::format(
          "{} again, after {} without success", kind_of(action),
          retry.effect.failures == 1 ? std::string("one") : std::to_string(retry.effect.failures)));
    turn.act(action);
    if (turn.decision.actions.size() > before)
      turn.repeated[before] = retry.effect.failures;  // remembered with its new key
  }
}

}  // namespace stoker::core
