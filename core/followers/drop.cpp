// Checkpoints that are not followed any more: the training has left their line, or RUN.yaml does
// not name their follower.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/followers/followers.hpp"
#include "core/sentence.hpp"

namespace stoker::core::followers {

FollowerPolicy policy_of(const RunState& run, const std::string& name) {
  for (const FollowerPolicy& policy : run.policy.after)
    if (policy.name == name) return policy;
  FollowerPolicy removed;
  removed.name = name;
  removed.tries = 1;
  return removed;
}

bool drop(Turn& turn, Following& f) {
  f.left = true;
  if (!f.job || !f.job->is_there()) return true;
  if (!f.job->runs && !f.job->over_at) cancel_unstarted(turn, *f.job);
  return false;
}

void leave_line(Turn& turn, Iteration from) {
  for (auto& [name, follower] : turn.r().followers) {
    follower.newest = std::min(follower.newest, from);
    std::erase_if(follower.open, [&, &name = name, &follower = follower](Following& f) {
      if (f.iteration <= from || f.left) return false;
      const bool running = f.job && f.job->runs;
      turn.say(fmt::format("{}: the training has left the line of the checkpoint of iteration {}{}",
                           name, f.iteration.value,
                           running ? ", whose job runs to its end" : ": it is not followed"));
      if (!drop(turn, f)) return false;
      remember_folder(follower, f);
      return true;
    });
  }
}

void forget_removed(Turn& turn) {
  RunState& run = turn.r();
  for (auto it = run.followers.begin(); it != run.followers.end();) {
    const auto& [name, follower] = *it;
    const bool named = std::any_of(run.policy.after.begin(), run.policy.after.end(),
                                   [&name = name](const auto& p) { return p.name == name; });
    if (named) {
      ++it;
      continue;
    }
    std::size_t dropped = 0, seen_out = 0;
    std::erase_if(it->second.open, [&](Following& f) {
      if (f.left) return false;
      ++dropped;
      const bool over = drop(turn, f);
      if (!over) ++seen_out;
      return over;
    });
    if (dropped > 0)
      turn.say(fmt::format(
          "{} is no longer in RUN.yaml: {} not followed by it{}", name,
          count_text(dropped, "checkpoint"),
          seen_out == 0 ? ""
                        : fmt::format("; {} cancelled, or runs to its end if it has begun",
                                      seen_out == 1 ? "its job is" : "each of its jobs is")));
    resolve(turn, "follower_failed", name);
    resolve(turn, "follower_behind", name);
    it = follower.open.empty() ? run.followers.erase(it) : std::next(it);
  }
}

}  // namespace stoker::core::followers
