// Followers (`after:` of RUN.yaml) in words, as `stoker status` and `stoker top` show them.
#pragma once

#include <string>

#include "common/time.hpp"
#include "wire/status.hpp"

namespace stoker::cli {

// "evaluate: iteration 3,000 running (job 12), submitted 4min ago, 2 wait, 1,000 iterations behind;
// last 2,000 done in 12min: loss 2.1; 2 done, 1 given up"
std::string follower_line(const wire::StatusFollower& follower, WallTime now);

// Its parts. "running (job 12), try 2, submitted 4min ago"
std::string follow_job_text(const wire::StatusFollowed& job, WallTime now);
// "2,000 done in 12min: loss 2.1", "2,000 given up: exit code 3"
std::string follow_result_text(const wire::StatusFollowResult& result);
// "2 done, 1 given up, 3 left out"
std::string follow_counts_text(const wire::StatusFollower& follower);
// "1,000 iterations behind"; "" = it is not
std::string follow_behind_text(const wire::StatusFollower& follower);

}  // namespace stoker::cli
