// The two state machines of a run as constexpr tables: (from, trigger, to, why). Every pair of a
// state and a trigger is either listed or ignored on purpose; the compiler proves it, step() checks
// every change against the tables at run time, and docs/states.md is rendered from them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/state.hpp"

namespace stoker::core {

// In the order of the alternatives of TrainingState.
enum class TrainingKind : std::uint8_t {
  Idle,
  Queued,
  Starting,
  Training,
  Suspect,
  Stopping,
  Recovering,
  Held,
  Finished,
  Stopped
};
inline constexpr std::array<std::string_view, 10> kTrainingNames{
    "idle",     "queued",     "starting", "training", "suspect",
    "stopping", "recovering", "held",     "finished", "stopped"};

enum class Trigger : std::uint8_t {
  Submits,     // a submission was decided
  JobRuns,     // a job of ours runs, or its first agent spoke
  RanksStart,  // an attempt began
  Iterates,    // an iteration was completed in this attempt, or the ranks entered the loop
  Silence,     // a hang, or a lead agent without a word
  Moves,       // what was silent moves again
  Fails,       // a failure was found
  Leaves,      // the generation leaves: by request, by plan, or before the wall
  TaskEnds,    // the task is proven over
  Completes,   // the training reached its end
  Holds,       // a person is needed
  Stops,       // a person ended the run
  Drains       // nothing is queued any more and nothing may be submitted (paused)
};
inline constexpr std::array<std::string_view, 13> kTriggerNames{
    "submits", "job runs",  "ranks start", "iterates", "silence", "moves", "fails",
    "leaves",  "task ends", "completes",   "holds",    "stops",   "drains"};

enum class SupplyKind : std::uint8_t { Intended, Unknown, Pending, Running, Ending, Terminal };
inline constexpr std::array<std::string_view, 6> kSupplyNames{"intended", "unknown", "pending",
                                                              "running",  "ending",  "terminal"};
enum class SupplyTrigger : std::uint8_t {
  Answered,  // the scheduler gave a job id, or the token was found
  NoAnswer,  // asked, no answer
  Refused,   // proven not to have happened
  Waits,     // seen in the queue
  Runs,      // a task of it runs
  TaskOver,  // a task is proven over
  Decided,   // the end of the task was taken into account, more tasks wait
  Exhausted  // no task is left, or the rest is cancelled
};
inline constexpr std::array<std::string_view, 8> kSupplyTriggerNames{
    "answered", "no answer", "refused", "waits", "runs", "task over", "decided", "exhausted"};

template <class Kind, class Cause>
struct Transition {
  Kind from;
  Cause trigger;
  Kind to;
  std::string_view why;
};

template <class Kind, class Cause>
struct Ignored {
  Kind from;
  Cause trigger;
  std::string_view why;
};

namespace tables {  // short names for the rows below
using T = TrainingKind;
using G = Trigger;
using S = SupplyKind;
using H = SupplyTrigger;
inline constexpr Transition<TrainingKind, Trigger> kTrainingTable[] = {
    {T::Idle, G::Submits, T::Queued, "a submission is on its way"},
    {T::Idle, G::JobRuns, T::Starting, "a job that was submitted before runs"},
    {T::Idle, G::Holds, T::Held, "nothing can be submitted as it is configured"},
    {T::Idle, G::Completes, T::Finished, "its last generation had reached the end"},
    {T::Idle, G::Stops, T::Stopped, "stopped before it began"},

    {T::Queued, G::Submits, T::Queued, "the submission is replaced or tried again"},
    {T::Queued, G::JobRuns, T::Starting, "a task of ours runs"},
    {T::Queued, G::TaskEnds, T::Queued, "a task ended before its agents spoke; the next waits"},
    {T::Queued, G::Completes, T::Finished, "the last reports show that the end was reached"},
    {T::Queued, G::Holds, T::Held, "all that was queued is gone and a person must decide"},
    {T::Queued, G::Stops, T::Stopped, "stopped while waiting; queued tasks are cancelled"},
    {T::Queued, G::Drains, T::Idle, "paused with nothing left in the queue"},

    {T::Starting, G::RanksStart, T::Starting, "an attempt of the ranks began"},
    {T::Starting, G::Iterates, T::Training, "the ranks iterate"},
    {T::Starting, G::Silence, T::Suspect, "the start passed its deadline, or the lead is silent"},
    {T::Starting, G::Fails, T::Recovering, "a rank, node or attempt failed"},
    {T::Starting, G::Leaves, T::Stopping, "ordered to exit before the first iteration"},
    {T::Starting, G::TaskEnds, T::Queued, "the job ended while starting"},
    {T::Starting, G::Completes, T::Finished, "nothing was left to train"},
    {T::Starting, G::Holds, T::Held, "a failure that no retry can fix, or the budget is spent"},
    {T::Starting, G::Stops, T::Stopped, "the training's own kill switch"},

    {T::Training, G::RanksStart, T::Starting, "the agents restarted the ranks by themselves"},
    {T::Training, G::Iterates, T::Training, "iterations continue"},
    {T::Training, G::Silence, T::Suspect, "a rank passed its deadline, or the lead is silent"},
    {T::Training, G::Fails, T::Recovering, "a rank, node or attempt failed"},
    {T::Training, G::Leaves, T::Stopping, "requested to exit, by plan, or before the wall"},
    {T::Training, G::TaskEnds, T::Queued, "the job ended; the next task resumes"},
    {T::Training, G::Completes, T::Finished, "the last iteration is done"},
    {T::Training, G::Holds, T::Held, "a failure that no retry can fix, or the budget is spent"},
    {T::Training, G::Stops, T::Stopped, "the training's own kill switch"},

    {T::Suspect, G::RanksStart, T::Starting, "the agents restarted the ranks by themselves"},
    {T::Suspect, G::Silence, T::Suspect, "another symptom joins"},
    {T::Suspect, G::Moves, T::Training, "what was silent moves again"},
    {T::Suspect, G::Moves, T::Starting, "what was silent moves again, before the first iteration"},
    {T::Suspect, G::Fails, T::Recovering, "the evidence is in, or its time has passed"},
    {T::Suspect, G::Leaves, T::Stopping, "a hanging training still obeys a stop"},
    {T::Suspect, G::TaskEnds, T::Queued, "the job ended while it was suspect"},
    {T::Suspect, G::Completes, T::Finished, "the silence was the end"},
    {T::Suspect, G::Holds, T::Held, "the budget is spent"},
    {T::Suspect, G::Stops, T::Stopped, "the training's own kill switch"},

    {T::Stopping, G::Leaves, T::Stopping, "a harder step, or another goal"},
    {T::Stopping, G::TaskEnds, T::Queued, "the task is over; the next one resumes"},
    {T::Stopping, G::Completes, T::Finished, "it reached its end while leaving"},
    {T::Stopping, G::Holds, T::Held, "an operator is needed"},
    {T::Stopping, G::Stops, T::Stopped, "the task is over, as asked"},
    {T::Stopping, G::Drains, T::Idle, "paused; the task is over"},

    {T::Recovering, G::RanksStart, T::Starting, "the next attempt began"},
    {T::Recovering, G::Fails, T::Recovering, "the next rung of the ladder"},
    {T::Recovering, G::Leaves, T::Stopping, "requested to exit while recovering"},
    {T::Recovering, G::TaskEnds, T::Queued, "the task is over; the next one resumes"},
    {T::Recovering, G::Completes, T::Finished, "the end had been reached"},
    {T::Recovering, G::Holds, T::Held, "the budget is spent, or no retry can fix it"},
    {T::Recovering, G::Stops, T::Stopped, "the training's own kill switch"},
    {T::Recovering, G::Drains, T::Idle, "paused; the task is over"},

    {T::Held, G::Submits, T::Queued, "resumed: a new submission"},
    {T::Held, G::RanksStart, T::Starting, "the ranks were started again"},
    {T::Held, G::Fails, T::Recovering, "resumed inside the allocation that still runs"},
    {T::Held, G::Completes, T::Finished, "the end had been reached"},
    {T::Held, G::Holds, T::Held, "another reason to hold"},
    {T::Held, G::Stops, T::Stopped, "stopped while held"},

    {T::Finished, G::Submits, T::Queued, "resumed with a later end"},

    {T::Stopped, G::Submits, T::Queued, "resumed"},
    {T::Stopped, G::Completes, T::Finished, "the end had been reached while it was stopped"},
};

inline constexpr Ignored<TrainingKind, Trigger> kTrainingIgnored[] = {
    {T::Idle, G::RanksStart, "no generation is ours"},
    {T::Idle, G::Iterates, "no generation is ours"},
    {T::Idle, G::Silence, "nothing runs"},
    {T::Idle, G::Moves, "nothing was silent"},
    {T::Idle, G::Fails, "nothing runs"},
    {T::Idle, G::Leaves, "nothing runs"},
    {T::Idle, G::TaskEnds, "an old task; only the supply changes"},
    {T::Idle, G::Drains, "already idle"},
    {T::Queued, G::RanksStart, "the job's start comes first"},
    {T::Queued, G::Iterates, "a generation that is over"},
    {T::Queued, G::Silence, "nothing runs"},
    {T::Queued, G::Moves, "nothing was silent"},
    {T::Queued, G::Fails, "nothing runs"},
    {T::Queued, G::Leaves, "nothing runs"},
    {T::Starting, G::Submits, "a top-up; only the supply changes"},
    {T::Starting, G::JobRuns, "known"},
    {T::Starting, G::Moves, "was not silent"},
    {T::Starting, G::Drains, "the task runs to its end"},
    {T::Training, G::Submits, "a top-up; only the supply changes"},
    {T::Training, G::JobRuns, "known"},
    {T::Training, G::Moves, "was not silent"},
    {T::Training, G::Drains, "the task runs to its end"},
    {T::Suspect, G::Iterates, "ages decide whether it moves again"},
    {T::Suspect, G::Submits, "a top-up; only the supply changes"},
    {T::Suspect, G::JobRuns, "known"},
    {T::Suspect, G::Drains, "the task runs to its end"},
    {T::Stopping, G::Submits, "a top-up; only the supply changes"},
    {T::Stopping, G::JobRuns, "known, or must exit at once"},
    {T::Stopping, G::RanksStart, "ordered to exit already"},
    {T::Stopping, G::Iterates, "ordered to exit already"},
    {T::Stopping, G::Silence, "it is being ended anyway"},
    {T::Stopping, G::Moves, "it is being ended anyway"},
    {T::Stopping, G::Fails, "it is being ended anyway"},
    {T::Recovering, G::Submits, "a top-up; only the supply changes"},
    {T::Recovering, G::JobRuns, "known"},
    {T::Recovering, G::Iterates, "of the attempt that failed"},
    {T::Recovering, G::Silence, "has its own deadline"},
    {T::Recovering, G::Moves, "of the attempt that failed"},
    {T::Held, G::JobRuns, "must exit at once"},
    {T::Held, G::Iterates, "must exit at once"},
    {T::Held, G::Silence, "an operator is needed already"},
    {T::Held, G::Moves, "an operator is needed already"},
    {T::Held, G::Leaves, "was ordered to exit when it was held"},
    {T::Held, G::TaskEnds, "only the supply changes"},
    {T::Held, G::Drains, "only the supply changes"},
    {T::Finished, G::JobRuns, "must exit at once"},
    {T::Finished, G::RanksStart, "must exit at once"},
    {T::Finished, G::Iterates, "must exit at once"},
    {T::Finished, G::Silence, "over"},
    {T::Finished, G::Moves, "over"},
    {T::Finished, G::Fails, "over"},
    {T::Finished, G::Leaves, "over"},
    {T::Finished, G::TaskEnds, "only the supply changes"},
    {T::Finished, G::Completes, "over"},
    {T::Finished, G::Holds, "over"},
    {T::Finished, G::Stops, "over"},
    {T::Finished, G::Drains, "over"},
    {T::Stopped, G::JobRuns, "must exit at once"},
    {T::Stopped, G::RanksStart, "must exit at once"},
    {T::Stopped, G::Iterates, "must exit at once"},
    {T::Stopped, G::Silence, "over"},
    {T::Stopped, G::Moves, "over"},
    {T::Stopped, G::Fails, "over"},
    {T::Stopped, G::Leaves, "over"},
    {T::Stopped, G::TaskEnds, "only the supply changes"},
    {T::Stopped, G::Holds, "over"},
    {T::Stopped, G::Stops, "over"},
    {T::Stopped, G::Drains, "over"},
};

inline constexpr Transition<SupplyKind, SupplyTrigger> kSupplyTable[] = {
    {S::Intended, H::Answered, S::Pending, "the scheduler gave it a job id"},
    {S::Intended, H::NoAnswer, S::Unknown, "submitted without an answer; searching for the token"},
    {S::Intended, H::Refused, S::Terminal, "proven not submitted"},
    {S::Intended, H::Waits, S::Pending, "seen in the queue before the answer"},
    {S::Intended, H::Runs, S::Running, "seen running before the answer"},
    {S::Intended, H::TaskOver, S::Ending, "over before the answer"},
    {S::Intended, H::Exhausted, S::Terminal, "cancelled before the answer"},
    {S::Unknown, H::Answered, S::Pending, "the token was found"},
    {S::Unknown, H::Refused, S::Terminal, "several valid answers without the token"},
    {S::Unknown, H::Waits, S::Pending, "seen in the queue"},
    {S::Unknown, H::Runs, S::Running, "seen running"},
    {S::Unknown, H::TaskOver, S::Ending, "seen when it was over"},
    {S::Unknown, H::Exhausted, S::Terminal, "cancelled"},
    {S::Pending, H::Runs, S::Running, "a task runs"},
    {S::Pending, H::TaskOver, S::Ending, "a task ran and ended between two looks"},
    {S::Pending, H::Exhausted, S::Terminal, "cancelled while waiting"},
    {S::Running, H::Runs, S::Running, "the next task runs"},
    {S::Running, H::Waits, S::Pending, "the task was requeued"},
    {S::Running, H::TaskOver, S::Ending, "the task is proven over"},
    {S::Running, H::Exhausted, S::Terminal, "cancelled as a whole"},
    {S::Ending, H::Runs, S::Running, "the next task runs already"},
    {S::Ending, H::Decided, S::Pending, "more tasks wait"},
    {S::Ending, H::Exhausted, S::Terminal, "no task is left"},
    {S::Terminal, H::Waits, S::Pending, "a job that was taken for absent is there"},
    {S::Terminal, H::Runs, S::Running, "a job that was taken for absent runs"},
};
inline constexpr Ignored<SupplyKind, SupplyTrigger> kSupplyIgnored[] = {
    {S::Intended, H::Decided, "nothing ended"},
    {S::Unknown, H::NoAnswer, "the search continues"},
    {S::Unknown, H::Decided, "nothing ended"},
    {S::Pending, H::Answered, "known"},
    {S::Pending, H::NoAnswer, "it has been seen since"},
    {S::Pending, H::Refused, "it has been seen since"},
    {S::Pending, H::Waits, "known"},
    {S::Pending, H::Decided, "nothing ended"},
    {S::Running, H::Answered, "known"},
    {S::Running, H::NoAnswer, "it has been seen since"},
    {S::Running, H::Refused, "it has been seen since"},
    {S::Running, H::Decided, "nothing ended"},
    {S::Ending, H::Answered, "known"},
    {S::Ending, H::NoAnswer, "it has been seen since"},
    {S::Ending, H::Refused, "it has been seen since"},
    {S::Ending, H::Waits, "the rest of the array; the end is being decided"},
    {S::Ending, H::TaskOver, "reported again"},
    {S::Terminal, H::Answered, "too late; the queue decides"},
    {S::Terminal, H::NoAnswer, "over"},
    {S::Terminal, H::Refused, "over"},
    {S::Terminal, H::TaskOver, "over"},
    {S::Terminal, H::Decided, "over"},
    {S::Terminal, H::Exhausted, "over"},
};

}  // namespace tables
using tables::kSupplyIgnored;
using tables::kSupplyTable;
using tables::kTrainingIgnored;
using tables::kTrainingTable;

// Is every (state, trigger) listed, or ignored, and never both?
template <class Kind, class Cause, std::size_t N, std::size_t M>
constexpr bool complete(const Transition<Kind, Cause> (&table)[N],
                        const Ignored<Kind, Cause> (&ignored)[M], std::size_t kinds,
                        std::size_t causes) {
  for (std::size_t k = 0; k < kinds; ++k)
    for (std::size_t c = 0; c < causes; ++c) {
      int listed = 0;
      int left_out = 0;
      for (const auto& row : table)
        if (row.from == static_cast<Kind>(k) && row.trigger == static_cast<Cause>(c)) ++listed;
      for (const auto& row : ignored)
        if (row.from == static_cast<Kind>(k) && row.trigger == static_cast<Cause>(c)) ++left_out;
      if ((listed > 0) == (left_out > 0) || left_out > 1) return false;
    }
  return true;
}
static_assert(complete(kTrainingTable, kTrainingIgnored, kTrainingNames.size(),
                       kTriggerNames.size()));
static_assert(complete(kSupplyTable, kSupplyIgnored, kSupplyNames.size(),
                       kSupplyTriggerNames.size()));
static_assert(std::variant_size_v<TrainingState> == kTrainingNames.size());
static_assert(std::variant_size_v<supply::State> == kSupplyNames.size());

constexpr TrainingKind kind_of(const TrainingState& s) {
  return static_cast<TrainingKind>(s.index());
}
constexpr SupplyKind kind_of(const supply::State& s) {
  return static_cast<SupplyKind>(s.index());
}
bool allowed(TrainingKind from, Trigger trigger, TrainingKind to);
bool allowed(SupplyKind from, SupplyTrigger trigger, SupplyKind to);
// True when the trigger is in the ignored list of the state.
bool ignores(TrainingKind from, Trigger trigger);

}  // namespace stoker::core
