// Reactions: what each training state makes of what happens to its run, one row of functions a
// state. The row stands at the end of the state's file, below the functions that the state alone
// has. What several states share is in running.cpp (a job runs the ranks) and resting.cpp (no rank
// is wanted); what is the same in all states is in the handler of the event. To add one: a member
// here; the compiler then asks the row of each state for it.
#pragma once

#include <string>

#include "core/training/task_end.hpp"
#include "core/turn.hpp"
#include "wire/control.hpp"

namespace stoker::core {
struct Failure;
namespace signals {
struct Hang;
}

namespace training {

// What a running task is to the run.
enum class RunningTask { Awaited, Known, Unwanted };

// An order to stop, of an operator or of a plan.
struct StopAsked {
  wire::Level level;
  std::string by, sentence;
};

struct Reactions {
  // ---- jobs
  RunningTask (*task_runs)(const RunState& run);
  void (*task_ends)(Turn& turn, const TaskEnd& end);
  // ---- agents
  // A generation of a known task reported its start.
  void (*generation_starts)(Turn& turn);
  // An attempt of the ranks begins; the sentence reports it.
  void (*ranks_start)(Turn& turn, const wire::AttemptStarted& e, const std::string& sentence);
  // The ranks entered their loop, or completed an iteration.
  void (*iterates)(Turn& turn);
  // A digest came, and what the hang detector says to it. True: it has become suspect of it.
  bool (*heartbeats)(Turn& turn, const signals::Hang& hang);
  // A rank of the newest attempt ended, and was not ordered to.
  void (*rank_exits)(Turn& turn, const wire::RankExited& e);
  void (*attempt_ends)(Turn& turn, const Outcome& outcome);
  // The agent of a node that carries ranks is gone.
  void (*agent_lost)(Turn& turn, const Failure& failure);
  // The lead agent of the generation has not reported for a while.
  void (*lead_silent)(Turn& turn, const LeadSilent& silent);
  // ---- operators, and the training by its file
  void (*stop)(Turn& turn, const StopAsked& asked);
  void (*resume)(Turn& turn, const std::string& sentence);
  // The run was put under supervision again; `same`: with the configuration that it had.
  void (*added_again)(Turn& turn, bool same);
  void (*finish_file)(Turn& turn, const std::string& sentence);
  // ---- the daemon
  // It is back after `away`: what waits for a report is counted from now on.
  void (*daemon_back)(RunState& run, Instant now, Duration away);
  // The run directory has room again, so that commands and reports can be written.
  void (*room_again)(RunState& run, Instant now);
};

const Reactions& reactions(const Idle&);
const Reactions& reactions(const Queued&);
const Reactions& reactions(const Starting&);
const Reactions& reactions(const Training&);
const Reactions& reactions(const Suspect&);
const Reactions& reactions(const Stopping&);
const Reactions& reactions(const Recovering&);
const Reactions& reactions(const Held&);
const Reactions& reactions(const Finished&);
const Reactions& reactions(const Stopped&);

inline const Reactions& reactions_of(const RunState& run) {
  return std::visit([](const auto& state) -> const Reactions& { return reactions(state); },
                    run.training);
}

// Nothing changes.
template <class... What>
void ignore(Turn&, What...) {}
inline bool unwatched(Turn&, const signals::Hang&) {
  return false;
}
inline void waits_for_no_room(RunState&, Instant) {}
inline void waits_for_no_report(RunState&, Instant, Duration) {}

// ---- running.cpp: a job runs the ranks.
RunningTask known_task(const RunState& run);
void begin_ranks(Turn& turn, const wire::AttemptStarted& e, const std::string& sentence);
// The disk was full for so long that the agents started their ranks again by themselves, before
// the request to leave could be written. Not so if a rollback waits for the end of the task.
bool is_leave_unwritten(const RunState& run);
// Such ranks go on: the sentence that says so.
std::string take_leave_back(Turn& turn, const std::string& sentence);
bool watch_heartbeats(Turn& turn, const signals::Hang& hang);
void end_attempt(Turn& turn, const Outcome& outcome);
// The ranks were ordered to exit: what they exited with is no news, unless the training is
// finished.
void end_ordered_attempt(Turn& turn, const Outcome& outcome);
void stop_running(Turn& turn, const StopAsked& asked);
void resume_running(Turn& turn, const std::string& sentence);
void keep_until_next_start(Turn& turn, bool same);
void wait_for_ranks(Turn& turn, const std::string& sentence);
// Something is repeated or given up at this moment: not before the reports of now are read.
void put_off(Instant& at, Instant now, Duration away);

// ---- suspect.cpp
void suspect_hang(Turn& turn, const signals::Hang& hang);
void suspect_lead(Turn& turn, const LeadSilent& silent);
// The job is suspended: a suspicion of silence is dropped; and goes on, so that silence counts from
// now.
void excuse_silence(Turn& turn, const std::string& why);
void count_silence_again(Turn& turn);

// ---- lost_task.cpp: the task of ranks that were at work ended.
void lose_task(Turn& turn, const TaskEnd& end);

// ---- resting.cpp: no rank is wanted.
RunningTask unwanted_task(const RunState& run);
void say_task_end(Turn& turn, const TaskEnd& end);
void say_ranks_start(Turn& turn, const wire::AttemptStarted& e, const std::string& sentence);
void begin_no_ranks(Turn& turn, const wire::AttemptStarted& e, const std::string& sentence);
void note_outcome(Turn& turn, const Outcome& outcome);
void say_lost_agent(Turn& turn, const Failure& failure);
void stop_resting(Turn& turn, const StopAsked& asked);
void refuse_stop(Turn& turn, const StopAsked& asked);
void resume_resting(Turn& turn, const std::string& sentence);
// The halves of it: what counts against the run is forgiven; its next task is submitted.
void forgive(Turn& turn);
void submit_resumed(Turn& turn, const std::string& sentence);
void stay_until_resume(Turn& turn, bool same);
void say_finish_file(Turn& turn, const std::string& sentence);

// ---- held.cpp: a run that only waits for space tries at once.
void retry_with_room(RunState& run, Instant now);

// ---- attempt.cpp: what is remembered of the attempt before ends here.
void begin_attempt(Turn& turn, const wire::AttemptStarted& e);

}  // namespace training
}  // namespace stoker::core
