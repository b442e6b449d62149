// Answers to a submit, and the search for one that gave none: the token is looked up with growing
// pauses; several good answers without it over minutes prove it absent. Should that be wrong after
// all, the claims decide at the job's start.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/command.hpp"
#include "core/supply/scheduler_traits.hpp"
#include "core/supply/supply.hpp"
#include "core/timers.hpp"

namespace stoker::core::supply {
namespace {

constexpr std::uint32_t kPageAfter = 3;  // failed submissions in a row
constexpr std::uint32_t kFailedLookUps = 6;
constexpr Duration kLongSearch = 10min;
// In a search of this length a job may have come, run and been forgotten again (MinJobAge: 5 min
// unless set). What is left of it shows in logs and checkpoints.
constexpr Duration kForgotten = 5min;

Duration look_up_pause(std::uint32_t asked) {
  Duration pause = 2s;
  for (std::uint32_t i = 1; i < asked && pause < 60s; ++i) pause *= 2;
  return std::min<Duration>(pause, 60s);
}

}  // namespace

void on_submit_done(Turn& turn, Submission& s, const JobId& job) {
  note_accepted(turn, s, job);
  turn.r().jobs.failed_submits = 0;
  if (auto* queued = turn.in<training::Queued>()) queued->refused.clear();
  if (s.live() &&
      (std::holds_alternative<Intended>(s.state) || std::holds_alternative<Unknown>(s.state)))
    turn.go(s, Pending{}, SupplyTrigger::Answered);
  turn.say(fmt::format("submitted as {}", job_text(s.job)));
  resolve(turn, "submit_failed");
  if (s.cancel_asked || s.rest_cancelled)  // it was given up before it had a number
    turn.act(Cancel{s.token, s.job, true, false});
}

void on_submit_failed(Turn& turn, Submission& s, const EffectFailed& failed) {
  RunState& run = turn.r();
  const std::string& why = failed.why;
  if (!std::holds_alternative<Intended>(s.state) && !std::holds_alternative<Unknown>(s.state))
    return turn.say(fmt::format("the submission {} has been seen since", s.token.text));
  turn.go(s, Terminal{why}, SupplyTrigger::Refused);
  if (failed.burns && turn.in<training::Queued>() != nullptr)
    return hold(
        turn, {"kill_switch", fmt::format("nothing is submitted: {}", why), "remove the file", {}});
  if (!run.conditions.no_room_since) ++run.jobs.failed_submits;  // its order could not be written
  if (failed.starved && !run.jobs.without_exclusions) {
    run.jobs.without_exclusions = true;
    run.jobs.failed_submits = 0;
    raise(turn, {Severity::Warning, "exclusions_starve",
                 fmt::format("{} is submitted with all nodes, the excluded ones too: {}",
                             turn.name().text, why),
                 command_text(turn.name(), "nodes", "# then: stoker include NODE..."), ""});
  }
  const Duration pause = submit_pause(std::max(1u, run.jobs.failed_submits));
  auto* queued = turn.in<training::Queued>();
  turn.say(fmt::format("the scheduler rejected the submission: {}", why));
  if (queued != nullptr && running_submission(run) == nullptr) {
    queued->submit_at = turn.now() + pause;
    queued->refused = why;
    turn.say(fmt::format("trying again in {}, failure {}", format_duration(pause),
                         run.jobs.failed_submits));
  }
  if (run.jobs.failed_submits >= kPageAfter)
    raise(turn, {Severity::Critical, "submit_failed",
                 fmt::format("{} cannot be submitted: {}", turn.name().text, why),
                 command_text(turn.name(), "why"), ""});
}

void on_submit_unknown(Turn& turn, Submission& s, const std::string& why) {
  if (!std::holds_alternative<Intended>(s.state))
    return turn.say(fmt::format("the submission {} has been seen since", s.token.text));
  turn.go(s, Unknown{turn.now(), 0, 0, turn.now()}, SupplyTrigger::NoAnswer);
  turn.say(fmt::format("no answer to the submission {} ({}); searching the queue for its token",
                       s.token.text, why));
  look_up(turn, s);
}

void look_up(Turn& turn, Submission& s) {
  auto& unknown = std::get<Unknown>(s.state);
  ++unknown.asked;
  unknown.ask_at = turn.now() + look_up_pause(unknown.asked);
  if (unknown.asked > 1)
    turn.say(fmt::format("searching for the token {} again, time {}", s.token.text, unknown.asked));
  turn.act(LookUpToken{s.token});
}

std::optional<Instant> look_up_at(const SiteState&, const RunState& run) {
  std::optional<Instant> at;
  for (const auto& [token, s] : run.jobs.supply)
    if (const auto* unknown = std::get_if<Unknown>(&s.state)) keep_earliest(at, unknown->ask_at);
  return at;
}

void look_up_again(Turn& turn) {
  for (auto& [token, s] : turn.r().jobs.supply)
    if (const auto* unknown = std::get_if<Unknown>(&s.state);
        unknown != nullptr && unknown->ask_at <= turn.now())
      look_up(turn, s);
}

void on_look_up_failed(Turn& turn, const Token& token, const std::string& why) {
  if (turn.run == nullptr) return;
  const auto found = turn.r().jobs.supply.find(token);
  if (found == turn.r().jobs.supply.end()) return;
  const auto* unknown = std::get_if<Unknown>(&found->second.state);
  if (unknown == nullptr) return;
  const Duration for_long = turn.now() - unknown->since;
  if (unknown->asked - unknown->absent < kFailedLookUps || for_long < kLongSearch) return;
  raise(turn, {Severity::Critical, "submit_failed",
               fmt::format("{} is not submitted: for {} it could not be seen whether a submission "
                           "without an answer arrived: {}",
                           turn.name().text, format_duration(for_long), why),
               command_text(turn.name(), "why"), ""});
}

void on_looked_up(Turn& turn, const TokenLookedUp& answer) {
  RunState& run = turn.r();
  const auto found = run.jobs.supply.find(answer.token);
  if (found == run.jobs.supply.end())
    return turn.say(fmt::format("an answer about the unknown token {}", answer.token.text));
  Submission& s = found->second;
  auto* unknown = std::get_if<Unknown>(&s.state);
  if (unknown == nullptr) return;
  if (answer.found) {
    note_accepted(turn, s, answer.job);
    turn.go(s, Pending{}, SupplyTrigger::Answered);
    turn.say(fmt::format("the token {} was found: {}", s.token.text, job_text(s.job)));
    resolve(turn, "submit_failed");
    if (s.cancel_asked || s.rest_cancelled) turn.act(Cancel{s.token, s.job, true, false});
    return;
  }
  ++unknown->absent;
  const Duration for_long = turn.now() - unknown->since;
  const AbsenceProof proof = traits_of(run.policy.scheduler.kind).absence;
  if (unknown->absent < proof.answers || for_long < proof.length) return;
  turn.say(fmt::format("{} valid answers over {} do not contain the token {}: it was not submitted",
                       unknown->absent, format_duration(for_long), s.token.text));
  turn.go(s, Terminal{"not submitted"}, SupplyTrigger::Refused);
  if (!has_agents(run.policy) && for_long > kForgotten) run.jobs.may_write = true;
  if (++run.jobs.failed_submits >=
      kPageAfter)  // a full queue looks so: sbatch waits until it is ended
    raise(turn, {Severity::Critical, "submit_failed",
                 fmt::format("{} cannot be submitted: {} submissions in a row were not answered",
                             turn.name().text, run.jobs.failed_submits),
                 command_text(turn.name(), "why"), ""});
  ensure(turn, "");
}

}  // namespace stoker::core::supply
