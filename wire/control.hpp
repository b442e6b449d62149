// control.json: what the daemon wants of the running generation, as levels and counters. A level is
// a state that holds until it is changed; a counter grows by one for each request, so a `save` is
// never overwritten by a `stop` and a repeated write does nothing twice. Agents acknowledge by
// counter in their events (agent_event.hpp: Acknowledged). Replaced atomically.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/json.hpp"

namespace stoker::wire {

// Run: train. SaveAndLeave: checkpoint, then end the job's task. LeaveNow: end it without saving.
enum class Level { Run, SaveAndLeave, LeaveNow };

}  // namespace stoker::wire

template <>
struct stoker::EnumNames<stoker::wire::Level> {
  static constexpr std::array names{"run", "save_and_leave", "leave_now"};
};

namespace stoker::wire {

struct Control {
  int version = 1;
  RunName run;
  Epoch epoch;            // refused when older than one seen before
  Generation generation;  // the only generation this is for (fence)
  Level level = Level::Run;
  std::uint64_t save = 0;         // checkpoint now, go on
  std::uint64_t stacks = 0;       // collect the stacks of all ranks
  std::uint64_t restart = 0;      // restart the ranks inside the allocation
  Attempt restart_of;             // the attempt to end: a newer one has been started already
  Attempt leave_of;               // the attempt to leave: a newer one goes on; 0: whichever runs
  std::vector<NodeName> exclude;  // nodes that the next attempt must not use (spares go in)
  std::string reason;             // a sentence, shown in the agent's log
  // Of the run, not of a generation: the first act of each job reads them.
  std::string halt;        // why no generation may begin ("the run is stopped: ..."); "" = it may
  OrderNumber halt_order;  // newest one then; a job submitted by a newer one may begin
  Generation lifts;        // end marks up to this generation are lifted by a person
  STOKER_FIELDS(Control, version, run, epoch, generation, level, save, stacks, restart, restart_of,
                leave_of, exclude, reason, halt, halt_order, lifts)
};

// switch/{save,stop,kill,pause,resume,restart}: optional JSON body of a switch file.
struct SwitchBody {
  std::string by;
  std::string reason;
  std::string until;  // RFC 3339
  STOKER_FIELDS(SwitchBody, by, reason, until)
};

}  // namespace stoker::wire
