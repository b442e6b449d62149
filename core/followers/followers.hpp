// Followers: commands that are run on checkpoints as jobs of their own (`after:` of RUN.yaml):
// evaluation, conversion, upload. They never hold the training up: their jobs count for nothing
// that is the training's (submissions, arrays, nodes, restarts), and none is submitted while the
// training itself waits for nodes. Which checkpoints: the first one at or behind each multiple of
// `every`, oldest first, and the last one of a finished run; those of a line that a rollback has
// left are not followed. A checkpoint is kept from deletion until it is done with. Unknown is not
// dead: a job that may be there is neither tried again nor forgotten.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/turn.hpp"

namespace stoker::core::followers {

// A checkpoint is complete. take_up.cpp
void take_up(Turn& turn, Iteration iteration, Generation generation, const std::string& name);
// The training goes on from `from`: later checkpoints are of a line that it has left.
void leave_line(Turn& turn, Iteration from);
// At the end of each event of the run: what is due now.
void advance(Turn& turn);
// It has another name now: a token that has the old one and no job is given up.
void on_renamed(RunState& run);
// The next moment that advance() wants to see.
std::optional<Instant> wake_at(const SiteState& site, const RunState& run);

// Iterations that are not to be deleted yet.
std::vector<std::uint64_t> pins(const RunState& run);
// The same for checkpoints that were not heard of yet, where a start may resume from `from`.
std::vector<wire::FollowRule> rules(const RunState& run, std::optional<Iteration> from = {});
// The training has gone back behind what the newest orders keep for followers.
bool went_back(const RunState& run);
// A job of a follower may still be there.
bool has_jobs(const RunState& run);
// Something is still to be done.
bool is_busy(const RunState& run);

// jobs.cpp. Whether the token is a follower's.
bool is_followers(const RunName& run, const Token& token);
void on_job_seen(Turn& turn, const JobSeen& seen);
void on_job_gone(Turn& turn, const JobGone& gone);
void on_ended(Turn& turn, const FollowerEnded& ended);
void on_submitted(Turn& turn, const RunFollower& action, const JobId& job);
// `proven`: it did not happen; else it may have. The same submission is made again: its token is
// looked up before.
void on_not_submitted(Turn& turn, const RunFollower& action, const std::string& why, bool proven);
// A search for a job that is not wanted any more; no answer: it is searched for again.
void on_looked_up(Turn& turn, const TokenLookedUp& answer);
void on_not_looked_up(Turn& turn, const Token& token);

// For take_up.cpp: a try of open[index], and its end without success.
void begin_try(Turn& turn, const FollowerPolicy& policy, std::size_t index);
void submit_again(Turn& turn, const FollowerPolicy& policy, Following& following);
void fail_try(Turn& turn, const FollowerPolicy& policy, std::size_t index, const std::string& text,
              bool for_good);
// The job of open[index] has ended, and its command did not end by itself.
void fail_silent(Turn& turn, const FollowerPolicy& policy, std::size_t index);
void cancel_unstarted(Turn& turn, const Job& job);

// tidy.cpp. Folders of tries that are over: the newest of them stay, for people who read an output.
// A try of it was made, and no try is made any more.
void remember_folder(Follower& follower, const Following& following);
// A try is made of it again.
void take_folder(Follower& follower, const Following& following);
// Its folder is being deleted: no try begins.
bool is_leaving(const Follower& follower, const Following& following);
// Deletes what is older.
void tidy(Turn& turn, const std::string& name);
void on_folder_removed(Turn& turn, const RemoveFollowFolder& action);
// `proven`: it was refused, and stays; else it is deleted again.
void on_folder_not_removed(Turn& turn, const RemoveFollowFolder& action, const std::string& why,
                           bool proven);

// drop.cpp. It is not wanted any more. A job that waits is cancelled; one that runs, or may, is
// seen to its end. True: there is no job, it can be forgotten.
bool drop(Turn& turn, Following& following);
// Followers that RUN.yaml does not name any more.
void forget_removed(Turn& turn);
// That of RUN.yaml; of a follower that it does not name any more: one try, which is under way.
FollowerPolicy policy_of(const RunState& run, const std::string& name);

// The job has ended, and the end of its command has not been read: a network file system may show
// it this much later.
inline constexpr Duration kLastWords = 90s;

}  // namespace stoker::core::followers
