// A follower's jobs: submitted, seen, ended, tried again, given up.
#include <algorithm>
#include <fmt/format.h>

#include "common/hash.hpp"
#include "core/alerts/alerting.hpp"
#include "core/followers/followers.hpp"
#include "core/recover/end.hpp"
#include "core/sentence.hpp"
#include "core/supply/supply.hpp"
#include "wire/follow_files.hpp"

namespace stoker::core::followers {
namespace {

constexpr std::uint32_t kAlertAfter = 3;     // refused submissions in a row
constexpr std::uint32_t kGivenUpAfter = 12;  // the same, where the run is over: about two hours
constexpr Duration kLongestWait = 6h;

struct Found {
  FollowerPolicy policy;
  Follower* follower = nullptr;
  std::size_t index = 0;
  [[nodiscard]] Following& following() const { return follower->open[index]; }
};

// Empty: of a try that is over, or of another history.
std::optional<Found> find(RunState& run, const Token& token) {
  for (auto& [name, follower] : run.followers)
    for (std::size_t i = 0; i < follower.open.size(); ++i)
      if (follower.open[i].job && follower.open[i].job->token == token)
        return Found{policy_of(run, name), &follower, i};
  return std::nullopt;
}

// No run has a '+' in its name: the token cannot be that of another run's submission.
std::string token_prefix(const RunName& run) {
  return run.text + "+";
}

Token make_token(const Turn& turn, const std::string& follower, const Following& f) {
  const std::string seed =
      fmt::format("{}/{}/{}/{}", turn.name().text, turn.site.seq.value, turn.site.epoch.value,
                  turn.event.wall.time_since_epoch().count());
  return Token(fmt::format("{}{}.{}-{}-{}", token_prefix(turn.name()), follower, f.iteration.value,
                           f.tries + 1, hex32(crc32c(seed + follower))));
}

std::string checkpoint_text(const Following& f) {
  return fmt::format("the checkpoint of iteration {}", f.iteration.value);
}

std::string output_path(const Turn& turn, const std::string& follower, const Following& f,
                        const Token& token) {
  return fmt::format("{}/{}/{}/{}", turn.r().policy.directory, wire::kFollowFolder,
                     wire::follow_folder(follower, f.iteration, f.generation),
                     wire::follow_output(token));
}

void erase(Follower& follower, std::size_t index) {
  remember_folder(follower, follower.open[index]);
  follower.open.erase(follower.open.begin() + static_cast<std::ptrdiff_t>(index));
}

void close(Turn& turn, const FollowerPolicy& policy, std::size_t index, Result result) {
  Follower& follower = turn.r().followers[policy.name];
  result.iteration = follower.open[index].iteration;
  result.wall = turn.event.wall;
  follower.last = std::move(result);
  erase(follower, index);
  const bool waits = std::any_of(follower.open.begin(), follower.open.end(),
                                 [](const Following& f) { return !f.job; });
  if (waits) return;
  follower.left_out = 0;
  resolve(turn, "follower_behind", policy.name);
}

}  // namespace

bool is_followers(const RunName& run, const Token& token) {
  return token.text.starts_with(token_prefix(run));
}

void on_renamed(RunState& run) {
  for (auto& [name, follower] : run.followers)
    for (Following& f : follower.open)
      if (f.job && !f.job->is_there()) f.job.reset();
}

void begin_try(Turn& turn, const FollowerPolicy& policy, std::size_t index) {
  Follower& follower = turn.r().followers[policy.name];
  Following& f = follower.open[index];
  take_folder(follower, f);
  Job job;
  job.token = make_token(turn, policy.name, f);
  job.since = turn.now();
  job.wall = turn.event.wall;
  f.job = job;
  turn.say(fmt::format("{} follows {}{}", policy.name, checkpoint_text(f),
                       f.tries == 0 ? "" : fmt::format(", try {}", f.tries + 1)));
  submit_again(turn, policy, f);
}

void submit_again(Turn& turn, const FollowerPolicy& policy, Following& f) {
  f.job->asked = true;
  turn.act(RunFollower{f.job->token, policy.name, f.iteration, f.generation, f.checkpoint,
                       f.tries + 1,
                       exclusions_for_submit(turn.site.ledger, turn.r().policy.scheduler.exclude,
                                             policy.nodes, turn.now())});
}

void cancel_unstarted(Turn& turn, const Job& job) {
  if (job.job.job != 0) turn.act(Cancel{job.token, {job.job.job, 0}, true, true});
}

void fail_try(Turn& turn, const FollowerPolicy& policy, std::size_t index, const std::string& text,
              bool for_good) {
  Follower& follower = turn.r().followers[policy.name];
  Following& f = follower.open[index];
  const Token token = f.job->token;
  if (f.left) {
    turn.say(fmt::format("{} on {}, which is not followed any more, did not end well: {}",
                         policy.name, checkpoint_text(f), text));
    return erase(follower, index);
  }
  ++f.tries;
  f.job.reset();
  if (!for_good && f.tries < policy.tries) {
    Duration wait = policy.wait;
    for (std::uint32_t i = 1; i < f.tries && wait < kLongestWait; ++i) wait *= 2;
    f.at = turn.now() + std::min(wait, kLongestWait);
    return turn.say(fmt::format("{} on {} failed: {}; try {} of {} in {}", policy.name,
                                checkpoint_text(f), text, f.tries + 1, policy.tries,
                                format_duration(f.at - turn.now())));
  }
  const std::string sentence = fmt::format(
      "{} on {} failed: {}; given up{}; the training is not affected", policy.name,
      checkpoint_text(f), text,
      f.tries == 1 ? std::string(" after one try") : fmt::format(" after {} tries", f.tries));
  turn.say(sentence);
  const std::string output = output_path(turn, policy.name, f, token);
  ++follower.given_up;
  close(turn, policy, index, {{}, false, text, 0, {}});
  raise(turn,
        {Severity::Warning, "follower_failed", fmt::format("{}: {}", turn.name().text, sentence),
         fmt::format("tail -n 50 {}", output), policy.name});
}

void fail_silent(Turn& turn, const FollowerPolicy& policy, std::size_t index) {
  const Job& job = *turn.r().followers[policy.name].open[index].job;
  const std::string name = job_text({job.job.job, 0});
  const std::string how = job.over + (job.by_hand ? ", cancelled by hand" : "");
  const std::string text =
      job.gone ? fmt::format(
                     "{} is gone from the queue ({}), its time limit has passed, and its "
                     "command left no word",
                     name, how)
      : job.ordered ? fmt::format("{} ended ({}) before its command did", name, how)
                    : fmt::format("{} ended ({}), and its command left no word", name, how);
  fail_try(turn, policy, index, text, job.by_hand);
}

void on_ended(Turn& turn, const FollowerEnded& ended) {
  const auto found = find(turn.r(), ended.token);
  if (!found) return;
  const FollowerPolicy& policy = found->policy;
  const Job& job = *found->following().job;
  if (ended.missing) {  // it is proven that nothing more is to come
    if (!job.over_at || !job.looked_for) return;
    return fail_silent(turn, policy, found->index);
  }
  const bool failed = ended.code != 0 || ended.signal != 0;
  if (failed && ended.ordered && !job.gone) {  // the scheduler says why
    found->following().job->ordered = true;
    return;
  }
  const std::string words = ended.words.empty() ? "" : fmt::format(": \"{}\"", ended.words);
  if (failed)
    return fail_try(turn, policy, found->index, exit_text(ended.code, ended.signal) + words, false);
  const Duration took = from_seconds(std::clamp(ended.seconds, 0.0, 1e8));
  turn.say(fmt::format("{} on {} is done after {}{}", policy.name,
                       checkpoint_text(found->following()), format_duration(took), words));
  ++found->follower->good;
  close(turn, policy, found->index, {{}, true, ended.words, to_seconds(took), {}});
  resolve(turn, "follower_failed", policy.name);
}

void on_job_seen(Turn& turn, const JobSeen& seen) {
  const auto found = find(turn.r(), seen.token);
  const bool waits = seen.state == JobState::Pending;
  const auto cancel = [&](const std::string& why) {
    turn.say(fmt::format("{} is cancelled before it starts: {}", job_text({seen.job.job, 0}), why));
    turn.act(Cancel{seen.token, {seen.job.job, 0}, true, true});
  };
  if (!found) {  // it would leave by itself: its order names another
    if (waits) cancel("nothing waits for this follower's job any more");
    return;
  }
  Job& job = *found->following().job;
  const bool runs = seen.state == JobState::Running || seen.state == JobState::Completing;
  if (job.job.job != 0 && job.job.job != seen.job.job) {  // a submission whose answer came late
    if (waits) cancel(fmt::format("{} is of the same submission", job_text(job.job)));
    if (!runs || job.runs) return;
    turn.say(fmt::format("{} has started, so {} of the same submission is cancelled",
                         job_text({seen.job.job, 0}), job_text(job.job)));
    cancel_unstarted(turn, job);  // only one of them can have the claim
  }
  const bool fresh = job.job.job == 0;
  job.job = {seen.job.job, 0};
  job.unknown = false;
  job.runs = runs;
  if (!is_terminal(seen.state)) {
    job.over_at.reset();
    job.gone = job.looked_for = false;
    if (fresh && waits && found->following().left) cancel_unstarted(turn, job);
    return;
  }
  if (job.over_at) return;
  job.over_at = turn.now();
  job.over = stoker::name_of(seen.state);
  job.by_hand = seen.state == JobState::Cancelled && !seen.cancelled_by_us;
}

void on_job_gone(Turn& turn, const JobGone& gone) {
  const auto found = find(turn.r(), gone.token);
  if (!found) return;
  Job& job = *found->following().job;
  if (job.over_at || job.job.job != gone.job.job) return;
  job.over_at = turn.now();
  job.over = gone.why;
  job.gone = true;
  turn.say(fmt::format(
      "{} of {} is gone from the queue: {}; its command may still run, so it counts as failed only "
      "after its time limit ({}), unless it leaves word before",
      job_text(job.job), found->policy.name, gone.why, format_duration(found->policy.time_limit)));
}

void on_submitted(Turn& turn, const RunFollower& action, const JobId& id) {
  const auto found = find(turn.r(), action.token);
  if (!found) {  // not wanted any more
    if (id.job != 0) turn.act(Cancel{action.token, {id.job, 0}, true, true});
    return;
  }
  Job& job = *found->following().job;
  job.asked = job.unknown = false;
  if (job.job.job != 0 && job.job.job != id.job) return;  // the queue has shown another meanwhile
  job.job = {id.job, 0};
  if (found->following().left) return cancel_unstarted(turn, job);
  if (job.refusals >= kAlertAfter) resolve(turn, "follower_failed", action.follower);
  job.refusals = 0;
  turn.say(fmt::format("{} on {} is {}", action.follower, checkpoint_text(found->following()),
                       job_text(job.job)));
}

void on_not_submitted(Turn& turn, const RunFollower& action, const std::string& why, bool proven) {
  const auto found = find(turn.r(), action.token);
  if (!found) return;
  Job& job = *found->following().job;
  job.asked = false;
  if (job.job.job != 0) return;  // the queue has shown it meanwhile
  job.unknown = job.unknown || !proven;
  if (found->following().left && !job.unknown) return erase(*found->follower, found->index);
  ++job.refusals;
  job.again = turn.now() + supply::submit_pause(job.refusals);
  const std::string text = fmt::format(
      "{} of {} on {} ({})",
      proven ? "the scheduler refuses the job" : "no answer to the submission of the job",
      action.follower, checkpoint_text(found->following()), why);
  if (proven && !job.unknown && is_over(turn.r().training) && job.refusals >= kGivenUpAfter)
    return fail_try(turn, found->policy, found->index, text, true);
  if ((job.refusals & (job.refusals - 1)) == 0)
    turn.say(fmt::format("{}; trying again in {}", text, format_duration(job.again - turn.now())));
  if (job.refusals == kAlertAfter)
    raise(turn, {Severity::Warning, "follower_failed",
                 fmt::format("{}: {}, {} times in a row; the training is not affected",
                             turn.name().text, text, job.refusals),
                 command_text(turn.name(), "why"), action.follower});
}

void on_looked_up(Turn& turn, const TokenLookedUp& answer) {
  const auto found = find(turn.r(), answer.token);
  if (!found) return;
  Job& job = *found->following().job;
  job.asked = false;
  if (job.job.job != 0) return;
  if (!answer.found) return erase(*found->follower, found->index);
  job.job = {answer.job.job, 0};
  job.unknown = false;
  cancel_unstarted(turn, job);
}

void on_not_looked_up(Turn& turn, const Token& token) {
  const auto found = find(turn.r(), token);
  if (!found) return;
  Job& job = *found->following().job;
  job.asked = false;
  job.again = turn.now() + supply::submit_pause(++job.refusals);
}

}  // namespace stoker::core::followers
