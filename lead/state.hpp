// State: all that the lead of a generation knows, as a value. What holds only in one stage is in
// stage.hpp; here is what outlives the stages.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "lead/fold.hpp"
#include "lead/snapshots.hpp"
#include "lead/stage.hpp"
#include "wire/control.hpp"
#include "wire/orders.hpp"

namespace stoker::lead {

// What never changes in the life of a lead.
struct Setup {
  wire::Start start;
  NodeName node;                     // the lead's own
  std::optional<OrderNumber> order;  // that was current at submission; empty: submitted by hand
  std::string start_path;            // of start.json, absolute
  std::string checkpoints;           // their directory, absolute
  Duration beat_every{};
};

// Where the agent of a node is.
struct Absent {};   // it has not come yet
struct Present {};  // connected and heard; the lead's own node always is
struct Closed {     // its connection closed while strangers flood the port: it may come back
  Instant until;
};
struct Lost {  // reported as lost; from `gone_at` on its processes count as gone
  Instant gone_at;
};
struct Gone {};  // lost for so long that its guardian has ended its ranks
using Presence = std::variant<Absent, Present, Closed, Lost, Gone>;

struct Agent {
  Presence presence;
  std::uint32_t standbys = 0;   // warm and ready
  std::size_t gpus = 0;         // that its NVML shows
  std::string stuck;            // processes there that cannot be killed
  std::uint32_t snapshots = 0;  // in its memory
};

// Each paroled node is tested once a generation and accusation.
struct Parole {
  std::set<NodeName> paroled, tested, poor;  // ever left out; tested here; that did badly
  bool preflight = false;                    // all nodes are to be tested first
};

struct Restarts {
  std::uint32_t own = 0;     // decided without the daemon since the last progress
  std::uint32_t starts = 0;  // of ranks
  Iteration resumed;         // where the newest attempt began
};

struct PendingStacks {
  std::string directory;
  std::size_t waiting = 0;  // nodes that have not answered
  std::uint32_t ranks = 0;
  Instant until;
};

struct State {
  Setup setup;
  Stage stage;
  std::map<NodeName, Agent> agents;
  std::map<NodeName, NodeSamples> samples;  // of the nodes that have reported
  wire::Beat beat;                          // the newest one of the newest attempt
  Instant beat_at;                          // the next one
  Instant awake_at;  // when the lead last went on after it had stood still (standstill.cpp)
  std::optional<Instant> give_up_at;  // the first of the agents that are Closed or Lost
  std::optional<Instant> leave_at;    // the time limit
  Attempt attempt;
  std::map<Rank, wire::RankExited> exits;  // of the newest attempt
  std::string loaded;                      // by it; directory name, "" = none
  Restarts restarts;
  std::set<std::string> damaged;  // checkpoints that were reported
  std::optional<Search> search;   // while a Choice is BeingChosen
  SnapshotBounds snapshots_through;
  Parole parole;
  std::optional<PendingStacks> stacks;
  Epoch epoch;
  wire::Control done;  // counters acted on; the level taken up; exclusions
  int interrupts = 0;
};

}  // namespace stoker::lead
