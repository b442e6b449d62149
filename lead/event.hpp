// Event: everything that the lead can learn. Time is in the event; nothing else says what time it
// is. To add one: a struct here with kKind, its place in EventBody, an overload of on() in
// handlers.hpp, and in worker/agent/lead.cpp the place where it is seen.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/time.hpp"
#include "lead/checkpoint.hpp"
#include "wire/control.hpp"
#include "wire/end_mark.hpp"
#include "wire/node_messages.hpp"

namespace stoker::lead {

// ---- the lead itself
struct Began {  // the first event: the generation is minted
  static constexpr const char* kKind = "began";
  std::string host, boot_id;
  std::int64_t pid = 0;
};
struct Link {  // of an agent that has connected at least once
  NodeName node;
  bool up = false;
  Instant heard_at;  // its last frame
};
// Time has passed (wake_at()) or a connection broke. All that the lead knows by looking.
struct Tick {
  static constexpr const char* kKind = "tick";
  std::vector<Link> links;
  bool flooded = false;    // strangers flood the port: a link may be lost without its node's fault
  bool own_clear = false;  // no process is left on the lead's own node, standbys included
  bool archived = true;    // no copy of a checkpoint is under way
};
struct Signal {  // of the scheduler or a person, to the lead
  static constexpr const char* kKind = "signal";
  int number = 0;
  std::string name;
};
struct KeeperGone {  // the agent's keeper was killed: everything must end now
  static constexpr const char* kKind = "keeper_gone";
};

// ---- the agents
struct AgentConnected {  // and proved who it is
  static constexpr const char* kKind = "agent_connected";
  NodeName node;
  std::string host, boot_id;
  std::int64_t pid = 0;
};
struct NodeSaid {
  static constexpr const char* kKind = "node_said";
  NodeName node;
  wire::NodeReport report;
};

// ---- the daemon and people
struct ControlRead {  // control.json has changed
  static constexpr const char* kKind = "control";
  wire::Control control;
};
struct SwitchLeft {  // a switch file that the daemon has not taken for a while
  static constexpr const char* kKind = "switch";
  std::string verb;  // "kill" | "stop" | "save"
  std::string by, reason;
};

// ---- answers to actions
struct CheckpointChosen {  // to ChooseCheckpoint
  static constexpr const char* kKind = "checkpoint_chosen";
  ChosenCheckpoint chosen;
};
struct KillSwitch {  // of the training itself, put there by a person
  std::string path, by;
  WallTime at;  // last written
};
struct EndLooked {  // to LookForEnd
  static constexpr const char* kKind = "end_looked";
  std::optional<KillSwitch> kill_switch;  // empty: it is not there, or stoker's own
  bool finish_file = false;               // the file of train.finished is there
};
struct EndWritten {  // to WriteEndMark
  static constexpr const char* kKind = "end_written";
  wire::EndMark mark;  // as written
  std::string error;   // "" = it is durable
};

using EventBody = std::variant<Began, Tick, Signal, KeeperGone, AgentConnected, NodeSaid,
                               ControlRead, SwitchLeft, CheckpointChosen, EndLooked, EndWritten>;

struct Event {
  Instant at;
  WallTime wall;  // for people and file names only
  EventBody body;
};

}  // namespace stoker::lead
