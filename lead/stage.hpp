// Stage: where the lead stands. One variant; anything that holds only for a while is part of its
// stage.
//
//   Gathering ─▶ Looking ─▶ [Benching ─▶ Looking ─▶] [Choosing ─▶] AskingPort ─▶ Running ─▶ Judging
//                   ▲                                                                          │
//                   └──────── (a restart was asked) ◀──────────────────────────────────────────┤
//                   └──────── Waiting (after a failure: for the daemon's restart, or alone) ◀──┘
//   from each of them: [Concluding (the run is over: its mark is written) ─▶] Leaving ─▶ Left
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "common/time.hpp"
#include "lead/checkpoint.hpp"
#include "wire/agent_event.hpp"
#include "wire/end_mark.hpp"

namespace stoker::lead {

// The checkpoint of the next attempt.
struct NotChosen {};
struct BeingChosen {};
using Choice = std::variant<NotChosen, BeingChosen, ChosenCheckpoint>;

// Why an attempt begins.
struct Why {
  std::string text;
  std::uint64_t restart = 0;  // the counter of control.json that asked for it; 0 = none did
};

// The attempt that comes next, and why.
struct Next {
  Why why;
  Choice choice;
};

struct Gathering {  // waits for the agents of the other nodes
  static constexpr const char* kKind = "gathering";
  Instant since;
  Next next;
};
struct Looking {  // does the training's kill switch lie there? Then nothing starts
  static constexpr const char* kKind = "looking";
  Next next;
};
struct Benching {  // nodes on parole, or all of them, are tested before they carry ranks
  static constexpr const char* kKind = "benching";
  Next next;
  std::set<NodeName> nodes, waiting;  // that take part; that have not answered
  wire::NodesBenched result;
  std::map<NodeName, std::vector<wire::GpuFigures>> before;  // of the first round
  Instant since, asked, until;
  int round = 1;
};
struct Choosing {  // waits for the choice of the checkpoint
  static constexpr const char* kKind = "choosing";
  Why why;
};
struct AskingPort {  // the first node is asked for a free port
  static constexpr const char* kKind = "asking_port";
  Why why;
  ChosenCheckpoint chosen;
  std::vector<NodeName> nodes;         // of the attempt
  std::optional<MemorySource> memory;  // newer than `chosen`
  // While that node has none: when it is asked again, and when that was last reported.
  std::optional<Instant> again_at, reported_at;
};

// What was asked of the running attempt.
struct GoOn {};
struct Restart {
  Why why;
};
struct Leave {
  std::string why;
  std::string by;  // the person who stopped the run by a switch file; "" = the run is not over
};
using Ask = std::variant<GoOn, Restart, Leave>;

struct Failure {
  std::optional<wire::RankExited> first;  // the first rank that failed; empty: a node was lost
};

struct Running {  // ranks are there, until every process of them is proven gone
  static constexpr const char* kKind = "running";
  std::vector<NodeName> nodes;
  std::set<NodeName> holding;  // nodes whose processes are not proven gone
  Instant since;
  Ask ask;
  std::optional<Failure> failure;
  std::optional<wire::Phase> phase;  // that was reported
  double slowest_iteration_ms = 0;
};
struct Judging {  // the attempt is over: is the run?
  static constexpr const char* kKind = "judging";
  wire::AttemptEnded ended;
  std::optional<int> planned;  // the exit code, where all ranks left as planned
  Ask ask;
  std::string last_words;  // of the rank that failed first
};
struct Waiting {  // after a failure: for the daemon's word; then it restarts alone
  static constexpr const char* kKind = "waiting";
  Choice choice;
  Instant until;
  int code = 1;  // of the job, when no restart is left
  std::string last_words;
};

// How long the end of a finished run waits for copies of its checkpoints and for the daemon.
enum class Patience { Full, None };
struct Writing {};
struct Lingering {  // the mark is durable and reported
  Instant since, look_at;
};
struct Concluding {  // the run is over with this generation
  static constexpr const char* kKind = "concluding";
  wire::EndMark mark;
  std::string why;
  std::optional<wire::AttemptEnded> last;  // reported with the mark
  Patience patience = Patience::Full;
  std::variant<Writing, Lingering> part;
};

struct Leaving {  // everybody goes; every process must be proven gone
  static constexpr const char* kKind = "leaving";
  int exit_code = 1;
  std::string why;
  Instant since, look_at;
  std::optional<wire::EndMark> end;          // written: part of the goodbye
  std::optional<wire::AttemptEnded> last{};  // the mark is still being written
};
struct Left {  // goodbye was said
  static constexpr const char* kKind = "left";
};

using Stage = std::variant<Gathering, Looking, Benching, Choosing, AskingPort, Running, Judging,
                           Waiting, Concluding, Leaving, Left>;

constexpr const char* stage_name(const Stage& stage) {
  return std::visit([](const auto& s) { return std::decay_t<decltype(s)>::kKind; }, stage);
}

}  // namespace stoker::lead
