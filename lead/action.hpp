// Action: everything that the lead can do. The shell (worker/agent/lead.cpp) performs the actions
// of a step in their order, before the next event. To add one: a struct here with kKind, its place
// in Action, and the code that performs it.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "common/ids.hpp"
#include "wire/agent_event.hpp"
#include "wire/end_mark.hpp"
#include "wire/node_messages.hpp"

namespace stoker::lead {

struct Report {  // a line of gen-*/lead.jsonl
  static constexpr const char* kKind = "report";
  wire::AgentBody body;
};
struct Send {  // to an agent, also to the lead's own node; without effect where no link is up
  static constexpr const char* kKind = "send";
  NodeName node;
  wire::NodeCommand command;
};
// The order to each of the nodes, with its group rank; the first one's address is the master's. A
// kill switch that stoker has set is taken away first.
struct StartAttempt {
  static constexpr const char* kKind = "start_attempt";
  wire::StartRanks order;
  std::vector<NodeName> nodes;
};
struct ChooseCheckpoint {  // the newest good one of the lineage; answered by CheckpointChosen
  static constexpr const char* kKind = "choose_checkpoint";
};
struct LookForEnd {  // the training's kill switch and finish file; answered by EndLooked
  static constexpr const char* kKind = "look_for_end";
};
// Durable before anything says that the run is over. Its order is raised to the newest one on
// disk. Answered by EndWritten.
struct WriteEndMark {
  static constexpr const char* kKind = "write_end_mark";
  wire::EndMark mark;
};
struct SetKillSwitch {  // so that a foreign training saves and leaves
  static constexpr const char* kKind = "set_kill_switch";
};
struct GroupStacks {  // all nodes have answered, or time is up: group and report them
  static constexpr const char* kKind = "group_stacks";
  std::string directory;  // relative to the run directory
  std::uint32_t ranks = 0;
};
struct TendCheckpoints {  // one was saved: archive and prune
  static constexpr const char* kKind = "tend_checkpoints";
};
struct KillAll {  // ranks and standbys of the lead's own node, at once
  static constexpr const char* kKind = "kill_all";
};
struct Quit {  // the last action: logs, the goodbye, the end of the process
  static constexpr const char* kKind = "quit";
  wire::Goodbye goodbye;
};

using Action = std::variant<Report, Send, StartAttempt, ChooseCheckpoint, LookForEnd, WriteEndMark,
                            SetKillSwitch, GroupStacks, TendCheckpoints, KillAll, Quit>;

}  // namespace stoker::lead
