// Which checkpoints are followed, and when the next one's turn is.
#include <algorithm>
#include <bit>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/followers/followers.hpp"
#include "core/sentence.hpp"
#include "core/supply/submission.hpp"

namespace stoker::core::followers {
namespace {

std::size_t jobs_of(const Follower& follower) {
  return static_cast<std::size_t>(std::count_if(follower.open.begin(), follower.open.end(),
                                                [](const Following& f) { return f.job; }));
}

// Nothing is submitted while the run itself waits for nodes: they are the training's first.
bool may_submit(const SiteState& site, const RunState& run) {
  const TrainingKind kind = kind_of(run.training);
  return !run.asked.paused && !run.conditions.observe_only && !site.blind_since &&
         !run.conditions.is_cut_off() && run.jobs.rivals.empty() && kind != TrainingKind::Queued &&
         kind != TrainingKind::Recovering;
}

// Checkpoints come faster than the command is done with them: the oldest that waits is left out. A
// command that stays behind is reported at its 1st, 2nd, 4th, 8th … checkpoint.
void shorten_backlog(Turn& turn, const FollowerPolicy& policy, Follower& follower) {
  for (;;) {
    const std::size_t waiting = follower.open.size() - jobs_of(follower);
    if (waiting <= policy.backlog) return;
    const auto oldest = std::find_if(follower.open.begin(), follower.open.end(),
                                     [](const Following& f) { return !f.job; });
    const std::uint64_t left_out = ++follower.left_out;
    const std::string text = fmt::format(
        "{} is behind: {} wait (after.backlog {}), so the checkpoint of iteration {} "
        "is left out{}",
        policy.name, count_text(waiting, "checkpoint"), policy.backlog, oldest->iteration.value,
        left_out == 1 ? "" : fmt::format(", {} since it fell behind", left_out));
    ++follower.skipped;
    remember_folder(follower, *oldest);
    follower.open.erase(oldest);
    if (!std::has_single_bit(left_out)) continue;
    turn.say(text);
    raise(turn,
          {Severity::Warning, "follower_behind", fmt::format("{}: {}", turn.name().text, text),
           command_text(turn.name(), "status"), policy.name});
  }
}

void open(Turn& turn, const FollowerPolicy& policy, const Following& following) {
  Follower& follower = turn.r().followers[policy.name];
  follower.newest = following.iteration;
  const bool known =
      std::any_of(follower.open.begin(), follower.open.end(), [&](const Following& f) {
        return f.iteration == following.iteration && f.generation == following.generation;
      });
  if (known) return;
  follower.open.push_back(following);
  shorten_backlog(turn, policy, follower);
}

// The last checkpoint of a finished run is followed at any iteration.
void take_up_last(Turn& turn, const FollowerPolicy& policy) {
  RunState& run = turn.r();
  const CheckpointFacts& facts = run.health.checkpoint;
  if (turn.kind() != TrainingKind::Finished) return;
  if (facts.iteration <= run.followers[policy.name].newest) return;
  const auto known = facts.known.find(facts.iteration.value);
  Following following;
  following.iteration = facts.iteration;
  following.generation = known == facts.known.end() ? run.newest : known->second;
  following.checkpoint = facts.name;
  following.at = turn.now();
  open(turn, policy, following);
}

// When the folder of a job that has ended is read for a last time. One that is only gone from the
// queue may run on for as long as its limit says.
Instant judged_at(const FollowerPolicy& policy, const Job& job) {
  if (job.ordered) return *job.over_at;
  return *job.over_at + (job.gone ? policy.time_limit : Duration(0s)) + kLastWords;
}

bool is_to_be_judged(const std::optional<Job>& job) {
  return job && job->over_at && (!job->looked_for || job->ordered);
}

// Jobs that have ended, and whose command has left no end.
void judge_silent(Turn& turn, const FollowerPolicy& policy, Follower& follower) {
  for (std::size_t i = 0; i < follower.open.size();) {
    const std::size_t before = follower.open.size();
    auto& job = follower.open[i].job;
    if (is_to_be_judged(job) && judged_at(policy, *job) <= turn.now()) {
      job->looked_for = !job->ordered;  // its word has come: it ended as the scheduler says
      if (job->ordered) fail_silent(turn, policy, i);
    }
    if (follower.open.size() == before) ++i;
  }
}

// Its submission has no job yet, and is made, or searched for, again.
bool is_due(const Following& f, Instant now) {
  return f.job && f.job->job.job == 0 && !f.job->asked && f.job->again <= now;
}

void start_due(Turn& turn, const FollowerPolicy& policy, Follower& follower) {
  if (!may_submit(turn.site, turn.r())) return;
  for (Following& f : follower.open) {
    if (!is_due(f, turn.now())) continue;
    if (!f.left) {
      turn.say(fmt::format("the job of {} on the checkpoint of iteration {} is asked for again",
                           policy.name, f.iteration.value));
      submit_again(turn, policy, f);
    } else {
      f.job->asked = true;
      turn.act(LookUpToken{f.job->token});
    }
  }
  for (std::size_t i = 0; i < follower.open.size(); ++i) {
    if (jobs_of(follower) >= policy.at_once) return;
    if (!follower.open[i].job && follower.open[i].at <= turn.now() &&
        !is_leaving(follower, follower.open[i]))
      begin_try(turn, policy, i);
  }
}

}  // namespace

void take_up(Turn& turn, Iteration iteration, Generation generation, const std::string& name) {
  for (const FollowerPolicy& policy : turn.r().policy.after) {
    const std::uint64_t newest = turn.r().followers[policy.name].newest.value;
    if (!wire::keeps({policy.every, newest}, iteration.value)) continue;
    Following following;
    following.iteration = iteration;
    following.generation = generation;
    following.checkpoint = name;
    following.at = turn.now();
    open(turn, policy, following);
  }
}

void advance(Turn& turn) {
  RunState& run = turn.r();
  if (run.policy.after.empty() && run.followers.empty()) return;
  for (const FollowerPolicy& policy : run.policy.after) take_up_last(turn, policy);
  std::vector<std::string> names;
  for (const auto& [name, follower] : run.followers) names.push_back(name);
  for (const std::string& name : names) {
    const FollowerPolicy policy = policy_of(run, name);
    judge_silent(turn, policy, run.followers[name]);
    start_due(turn, policy, run.followers[name]);
    tidy(turn, name);
  }
  forget_removed(turn);
}

std::optional<Instant> wake_at(const SiteState& site, const RunState& run) {
  std::optional<Instant> at;
  const auto earliest = [&at](Instant moment) { at = at ? std::min(*at, moment) : moment; };
  const bool submits = may_submit(site, run);
  for (const auto& [name, follower] : run.followers) {
    const FollowerPolicy policy = policy_of(run, name);
    const bool room = jobs_of(follower) < policy.at_once;
    for (const Following& f : follower.open) {
      if (is_to_be_judged(f.job)) earliest(judged_at(policy, *f.job));
      if (f.job && submits && f.job->job.job == 0 && !f.job->asked) earliest(f.job->again);
      if (!f.job && submits && room && !is_leaving(follower, f)) earliest(f.at);
    }
  }
  return at;
}

std::vector<std::uint64_t> pins(const RunState& run) {
  std::vector<std::uint64_t> iterations;
  for (const auto& [name, follower] : run.followers)
    for (const Following& f : follower.open) iterations.push_back(f.iteration.value);
  return iterations;
}

std::vector<wire::FollowRule> rules(const RunState& run, std::optional<Iteration> from) {
  std::vector<wire::FollowRule> rules;
  for (const FollowerPolicy& policy : run.policy.after) {
    const auto follower = run.followers.find(policy.name);
    Iteration behind = follower == run.followers.end() ? Iteration{} : follower->second.newest;
    if (from) behind = std::min(behind, *from);
    rules.push_back({policy.every, behind.value});
  }
  return rules;
}

bool went_back(const RunState& run) {
  const auto now = rules(run);
  return std::equal(now.begin(), now.end(), run.asked.follow.begin(), run.asked.follow.end(),
                    [](const auto& a, const auto& b) { return a.every == b.every; }) &&
         !std::equal(now.begin(), now.end(), run.asked.follow.begin(),
                     [](const auto& a, const auto& b) { return a.behind >= b.behind; });
}

bool has_jobs(const RunState& run) {
  const auto is_there = [](const Following& f) { return f.job && f.job->is_there(); };
  return std::any_of(run.followers.begin(), run.followers.end(), [&](const auto& entry) {
    return std::any_of(entry.second.open.begin(), entry.second.open.end(), is_there);
  });
}

bool is_busy(const RunState& run) {
  return std::any_of(run.followers.begin(), run.followers.end(),
                     [](const auto& entry) { return !entry.second.open.empty(); });
}

}  // namespace stoker::core::followers
