// Recovery policy: the ladder. (1) restart the ranks inside the allocation, spares in, bad node
// out; (2) end the task, the next one resumes with the node excluded; (3) a rollback that a person
// orders; (4) hold and page. The budget is spent by failures and earned back by progress.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/alerts/alert_kind.hpp"
#include "core/turn.hpp"

namespace stoker::core {

struct Failure {
  std::string kind;             // of the alert: rank_crash hang node_fault agents_silent …
  std::string evidence;         // the sentence, without what is done about it
  std::vector<NodeName> nodes;  // what the evidence speaks against
  std::vector<NodeName> lost;   // of the allocation: can carry no rank any more
  bool strong = false;          // exclude the nodes at once
  bool inside = true;           // a restart inside the allocation can help
  bool free = false;            // no fault of the run (preemption): costs no budget
  std::string why_hold;         // a restart cannot fix it: the advice of the logs' verdict
  std::string words = {};       // the last line of the rank that crashed
  // How the rank or the job ended that failed first: by this signal; 0: with an exit code. Empty:
  // nothing did (a hang, a node or an agent that is gone).
  std::optional<int> signal = {};
};

// Counts crashes with the same error at the same iteration; where they are no bad luck any more
// (the second that had moved, the third that had not), `why_hold` says so.
Failure with_memory(RunState& run, Failure failure);

// What the logs of the failed attempt say about it (verdict.cpp): the cause is named, its nodes are
// the guilty ones, and a cause that a restart would meet again needs an operator.
Failure with_verdict(const RunState& run, Failure failure);
// The verdict came after the failure that it explains.
void heed_late_verdict(Turn& turn);
// Whether a failure that ended so (Failure::signal) is one that the verdict can explain. Its lines
// are the training's own output, text of a data set among it: an error that a program reports
// before it exits explains no kill and no lost node. The kernel's own word needs no such proof.
bool explains(const Diagnosed& d, std::optional<int> signal);
std::string place_of(const std::string& evidence);  // "main.log:123" of "main.log:123: text"
// Enough to act on; less is only reported.
inline constexpr double kSure = 0.6, kVerySure = 0.9;

// An asked-for restart inside the allocation is given up after this: TERM, 20 s, KILL, proof,
// barrier, start.
inline constexpr Duration kRestartBound = 90s;
// The agents have something to do before they restart the ranks, until then: the bound counts from
// there.
void await_restart(RunState& run, Instant until);
void on_machine_short(Turn& turn, const wire::MachineShort& e);

// Remembers when and where the trouble began, unless it is part of one already.
void note_incident(Turn& turn, const std::string& kind);
// The failure of a running generation: counts it, and takes the next rung.
void recover(Turn& turn, const Failure& failure);
// Ends the running task so that the next one resumes; from Recovering's first rung as well. `of`:
// the attempt that was to restart; where a newer one begins after all, the task goes on.
void next_task(Turn& turn, const std::string& failure, const std::string& sentence,
               Attempt of = {});
// Asks for a restart of the ranks inside the allocation.
void restart_inside(Turn& turn, const std::string& failure, const std::string& sentence);
// Nodes of the allocation that the next attempt must not use, as many as can be spared.
std::vector<NodeName> unusable_inside(const Turn& turn, const std::vector<NodeName>& suspects);
bool can_restart_inside(const Turn& turn);

// A person is needed: cancels what is queued, ends what runs, pages. With `retry` it is tried
// again by itself and the allocation is kept.
struct Hold {
  AlertKind kind;
  std::string evidence;  // the sentence
  std::string advice;    // what to do, before `stoker resume`
  std::optional<Duration> retry;
};
void hold(Turn& turn, const Hold& hold);

// How an attempt or a job ended, in the terms of the exit codes that stoker-train has.
// Obeyed: ordered to exit without saving.
enum class EndKind { Finished, Saved, Obeyed, KillSwitch, ExitReached, Failed };
EndKind classify(const RunState& run, const Outcome& outcome);
// An attempt of the live generation ended by itself: what follows.
void on_attempt_ended(Turn& turn, const Outcome& outcome);
// A rank ended unasked with something that is a failure on its own.
// The turn's event was reported together with the start of a newer attempt: it is counted, and
// nothing is done about it any more.
bool is_overtaken(const Turn& turn);
void on_rank_failed(Turn& turn, const wire::RankExited& exited);

void finish(Turn& turn, const std::string& sentence);
// The training has written the file by which it says that it is finished: however its ranks end
// then, it is.
bool finished_by_file(const RunState& run);

// Failures are forgiven by a new best iteration; the total is earned back by time in progress.
void count_progress(RunState& run, Iteration iteration, Instant now);

}  // namespace stoker::core
