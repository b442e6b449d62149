// Supply of a run: keeping enough submissions in the queue, never two live ones on purpose, and
// taking the end of each task into account exactly once.
#pragma once

#include <string>

#include "core/turn.hpp"

namespace stoker::core::supply {

// orders/<next>.json for the next start. `skip_samples` is a rollback's; it counts from the step
// that is gone back to (Exact).
void write_orders(Turn& turn, const wire::Resume& resume, std::uint64_t skip_samples = 0);

// Submits when nothing is live and a submission is wanted (Queued); goes Idle when paused.
// `why` says what led here.
void ensure(Turn& turn, const std::string& why);
// Adds the next array behind the running one when the chain runs dry.
void top_up(Turn& turn);
// Enters Queued with a new submission at once (from Idle, Held, Stopped or Queued).
void submit(Turn& turn, const std::string& why);
// Sends what speaks against nodes to the tasks that wait.
void update_exclusions(Turn& turn);
// The nodes that the next task goes without: RUN.yaml's own list, and what evidence excludes as
// long as enough remain.
std::vector<NodeName> avoided_nodes(const Turn& turn, std::uint32_t needed);
// A waiting array that is larger than what is usable can never start: replaced by a smaller one.
void resize_waiting(Turn& turn);
// A spike began or ended: new orders inform the running lead what it must not delete.
void follow_pins(Turn& turn);
// The search for a slow node has other suspects: the next start, also of a waiting task, is
// informed which of them it goes without.
void follow_search(Turn& turn);
// The plan (nodes by samples) has moved on: waiting tasks of the size before are replaced.
void follow_plan(Turn& turn);
// Nodes of a submission now: active ones by consumed samples, and the spares that exist.
struct Size {
  std::uint32_t active = 1;
  std::uint32_t with_spares = 1;
};
Size size_for(const Turn& turn);
// What a submission now asks for: that size for scheduler.time_limit, or less of either where nodes
// are reserved before (calendar.hpp).
struct Grant {
  Size size;
  Duration limit{};
};
Grant grant_for(const Turn& turn);
// The same where no job runs; behind one, size_for() and the whole time limit.
Grant grant_of_next(const Turn& turn);
// Active nodes by consumed samples, as RUN.yaml plans them.
std::uint32_t planned_nodes(const RunState& run);
// Nodes that are there for a job of this length from now on; empty: that is not known.
std::optional<std::uint32_t> nodes_for(const Turn& turn, Duration limit);

// The next task of an array runs beside one that lost a node and trains on: so would the others
// after it. Those that wait are replaced by a new array (array_limit.cpp).
void replace_uncounted(Turn& turn, const Submission& s);

void on_job_seen(Turn& turn, const JobSeen& seen);
// Why a task waits: what needs a person is an alert, what can never start is replaced (stuck.cpp).
void heed_reason(Turn& turn, Submission& s, const JobSeen& seen);
void end_if_none_is_stuck(Turn& turn);
// A generation's first report: its task runs, or runs again, no matter what the scheduler said
// last.
void on_claimed(Turn& turn, const wire::GenerationStarted& started);
// A job that the scheduler does not know any more (gone.cpp).
void on_job_gone(Turn& turn, const JobGone& gone);
// Ranks of a generation whose task was reported ended complete iterations all the same, a while
// after the last reports that a job may have: the task runs, and the generation is live again
// (lives.cpp).
void hear_after_the_end(Turn& turn, const Digest& digest);
// A job of `token` has won its claim, so that the job of any other submission is over.
void supersede(Turn& turn, const Token& token);
// Somebody else's live job on this run's name or folders: nothing is submitted beside it
// (rivals.cpp).
void on_rivals(Turn& turn, const RivalsSeen& seen);
// What nothing is submitted beside, as a sentence's end; "" = no rival.
std::string rival_text(const RunState& run);
// A task after `task` is known to run already.
bool next_runs(const Submission& submission, std::uint32_t task);
// The task's end, with all that its agents said: what comes next.
void decide_end(Turn& turn, Submission& submission);

// A warning: one task was cancelled by somebody else, and the chain went on.
void warn_cancelled(Turn& turn, const JobSeen& seen);
// All that could run was cancelled by hand: hold, or submit again, as the policy says.
void decide_hand_cancel(Turn& turn, const JobSeen& seen);

void on_submit_done(Turn& turn, Submission& submission, const JobId& job);
void on_submit_failed(Turn& turn, Submission& submission, const EffectFailed& failed);
void on_submit_unknown(Turn& turn, Submission& submission, const std::string& why);
void on_looked_up(Turn& turn, const TokenLookedUp& answer);
// Of a submission without an answer: it is announced when this lasts.
void on_look_up_failed(Turn& turn, const Token& token, const std::string& why);
void look_up(Turn& turn, Submission& submission);

// Accepted submissions in a row, without a completed iteration in between: a run that is submitted
// again and again makes a noise for everybody and gets nowhere (rate.cpp).
// The scheduler has this submission: it answered, or shows the job before its answer arrived.
void note_accepted(Turn& turn, Submission& submission, const JobId& job);
[[nodiscard]] bool too_many(const Turn& turn);
// Nothing more is submitted: held, or, beside a running task, reported.
void hold_submissions(Turn& turn, const std::string& why);

// Growing pause before try number `n` (from 1): 15 s doubling to 10 min.
Duration submit_pause(std::uint32_t n);

}  // namespace stoker::core::supply
