// Inside lead/: the turn of one event, and what the files of this folder call of each other.
#pragma once

#include <string>
#include <vector>

#include "lead/step.hpp"

namespace stoker::lead {

struct Turn {
  State& state;
  Instant at;
  WallTime wall;
  std::vector<Action> actions;

  template <class S>
  [[nodiscard]] S* in() {
    return std::get_if<S>(&state.stage);
  }
  [[nodiscard]] const wire::Start& start() const { return state.setup.start; }
  [[nodiscard]] const wire::Orders& orders() const { return state.setup.start.orders; }
  void act(Action action) { actions.push_back(std::move(action)); }
  void report(wire::AgentBody body) { act(Report{std::move(body)}); }
  void notice(std::string text) { report(wire::Notice{state.setup.node, std::move(text)}); }
  void send(const NodeName& node, wire::NodeCommand command) {
    act(Send{node, std::move(command)});
  }
};

// step.cpp: one an event
void on(Turn& turn, Began event);
void on(Turn& turn, Tick event);
void on(Turn& turn, Signal event);
void on(Turn& turn, KeeperGone event);
// standstill.cpp
void note_standstill(Turn& turn);  // first of all, at each event
// How long no word came, as far as the lead was there to read it.
[[nodiscard]] Duration silence_since(const Turn& turn, Instant heard_at);
// agents.cpp
void on(Turn& turn, AgentConnected event);
void on(Turn& turn, NodeSaid event);
void look_at_links(Turn& turn, const Tick& tick);
void gather(Turn& turn);
// beat.cpp
void take_beat(Turn& turn, const NodeName& node, wire::NodeBeat beat);
// Reports a beat: each beat_every, and at once when the phase that most ranks are in has changed.
enum class Fold { Always, OnEdge };
void fold_and_report(Turn& turn, Fold when);
[[nodiscard]] bool looks_hung(const State& state, const Running& running);

// attempt.cpp: from the choice to the start
void take_choice(Turn& turn, ChosenCheckpoint chosen);
[[nodiscard]] std::vector<NodeName> eligible_nodes(const State& state);
void begin_attempt(Turn& turn, Next next);  // looks for the kill switch first
void prepare(Turn& turn, Next next);        // nothing lies there
[[nodiscard]] Choice choose(Turn& turn);
void wait_for_port(Turn& turn, const std::string& why);  // that node has no free port now
void ask_port_again(Turn& turn);
void start_ranks(Turn& turn, AskingPort asked, std::uint32_t port);

// snapshots.cpp: what nodes hold in memory
void search_snapshots(Turn& turn);  // beside ChooseCheckpoint; both end in take_choice()
void on(Turn& turn, CheckpointChosen event);
void on_snapshots(Turn& turn, const NodeName& node, const wire::SnapshotsHeld& report);
void tend_search(Turn& turn);  // agents that are gone, or late
// The newest one that is whole on these nodes and newer than `chosen`; says why others are not.
[[nodiscard]] std::optional<MemorySource> pick_snapshot(Turn& turn, const ChosenCheckpoint& chosen,
                                                        const std::vector<NodeName>& nodes);
void note_resumed(State& state, Iteration iteration);  // the newest attempt begins behind it
// The ranks may have taken an older point than they were given.
void note_audit(State& state, const wire::ResumeAudit& audit);

// outcome.cpp: from the first exit to what follows
void on_rank_gone(Turn& turn, const wire::RankGone& gone);
void check_end(Turn& turn);
void stop_all(Turn& turn, wire::StopHow how);
void after_failure(Turn& turn, const Judging& judging);
void orphaned(Turn& turn);  // the daemon has not answered a failure

// end.cpp: the end of the run and of the job
void on(Turn& turn, EndLooked event);
void on(Turn& turn, EndWritten event);
[[nodiscard]] wire::EndMark end_mark(const Turn& turn, wire::End kind, std::string by,
                                     std::string why);
void conclude(Turn& turn, wire::EndMark mark, std::string why,
              std::optional<wire::AttemptEnded> last, Patience patience);
void linger(Turn& turn, const Tick& tick);
void leave(Turn& turn, int exit_code, const std::string& why);
void try_goodbye(Turn& turn, const Tick& tick);

// bench.cpp
[[nodiscard]] bool begin_bench(Turn& turn, const Next& next);  // false: no node is to be tested
void on_benched(Turn& turn, const NodeName& node, wire::Benched report);
void on_gpus(Turn& turn, const NodeName& node, std::size_t gpus);  // their test takes longer
void end_bench(Turn& turn);

// control.cpp: words from outside
void on(Turn& turn, ControlRead event);
void on(Turn& turn, SwitchLeft event);
void save_and_leave(Turn& turn, const std::string& why, const std::string& by = "");
void leave_now(Turn& turn, const std::string& why, const std::string& by = "");
void on_stacks(Turn& turn, const wire::StacksDone& done);
void group_stacks(Turn& turn);

}  // namespace stoker::lead
