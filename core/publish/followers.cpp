// Followers as status shows them.
#include "core/publish/followers.hpp"

#include <algorithm>

namespace stoker::core {
namespace {

std::string state_of(const followers::Job& job) {
  if (job.over_at) return "ended";
  return job.runs ? "running" : "waiting";
}

// A checkpoint that it is not to be run on any more does not count.
std::uint64_t behind_of(const followers::Follower& follower, Iteration newest) {
  Iteration oldest = newest;
  for (const followers::Following& f : follower.open)
    if (!f.left) oldest = std::min(oldest, f.iteration);
  return newest.value - oldest.value;
}

}  // namespace

std::vector<wire::StatusFollower> followers_of(const RunState& run) {
  std::vector<wire::StatusFollower> list;
  for (const FollowerPolicy& policy : run.policy.after) {
    wire::StatusFollower out;
    out.name = policy.name;
    out.every = policy.every;
    if (const auto found = run.followers.find(policy.name); found != run.followers.end()) {
      const followers::Follower& follower = found->second;
      out.good = follower.good;
      out.given_up = follower.given_up;
      out.skipped = follower.skipped;
      out.behind = behind_of(follower, run.health.checkpoint.iteration);
      for (const followers::Following& f : follower.open)
        if (f.job)
          out.jobs.push_back({f.iteration.value,
                              f.job->job.job == 0 ? "" : JobId{f.job->job.job, 0}.text(),
                              state_of(*f.job), format_rfc3339(f.job->wall), f.tries + 1});
        else
          out.waiting.push_back(f.iteration.value);
      if (const auto& last = follower.last)
        out.last = wire::StatusFollowResult{last->iteration.value, last->good, last->text,
                                            format_rfc3339(last->wall), last->seconds};
    }
    list.push_back(std::move(out));
  }
  return list;
}

}  // namespace stoker::core
