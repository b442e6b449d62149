// The lead agent of a generation: gathers the other agents, starts attempts, folds their beats,
// obeys control.json, restarts inside the allocation, and says goodbye. All state is the loop
// thread's; files are written by EventLog and LogWriter, read by ControlWatch and one thread that
// chooses checkpoints.
//
//   Gathering ─▶ [Benching ─▶] Choosing ─▶ AskingPort ─▶ Running ─▶ (all ranks gone) ─▶ Waiting ─▶
//   Choosing …
//                                              └────────────▶ Leaving (from every stage)
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "wire/control.hpp"
#include "worker/agent/archiver.hpp"
#include "worker/agent/checkpoint_choice.hpp"
#include "worker/agent/claim.hpp"
#include "worker/agent/control_watch.hpp"
#include "worker/agent/door.hpp"
#include "worker/agent/event_log.hpp"
#include "worker/agent/fold.hpp"
#include "worker/agent/node.hpp"
#include "worker/agent/pruner.hpp"
#include "worker/agent/star.hpp"

namespace stoker::agent {

// Its exit codes are known; those of any other command mean failure unless they are 0.
bool trains_with_stoker(const wire::Orders& orders);

struct LeadWiring {
  Loop& loop;
  const RunContext& context;
  Watchmen watchmen;
};

class Lead {
 public:
  // `before`: control.json as it was before the generation was minted; its counters are done.
  Lead(LeadWiring wiring, Minted minted, const std::optional<wire::Control>& before);
  ~Lead();

  Status begin();                 // listens, publishes the address, watches control
  void on_signal(int signal);     // of the scheduler or a person
  void keeper_gone();             // everything must end now
  void notice(std::string text);  // one line for the daemon and the log
  [[nodiscard]] int exit_code() const { return exit_code_; }

 private:
  enum class Stage { Gathering, Benching, Choosing, AskingPort, Running, Waiting, Leaving };
  struct Follower {
    std::unique_ptr<Link> link;  // null: lost or not yet there
    bool joined = false;         // it was there at least once
    bool told_lost = false;
    std::optional<Instant> gone_at;  // lost: from then on its processes count as gone
    std::uint32_t standbys = 0;
    NodeSamples samples;
    Instant sampled_at{};
    bool clear = true;  // no processes of the running attempt
  };

  // lead.cpp: gathering, links, reports, goodbye
  Status open_door();
  void on_known(const Hello& hello, std::unique_ptr<Link> link);
  void on_frame(const NodeName& node, const Frame& frame);
  void on_report(const NodeName& node, NodeReport report);
  void send(const NodeName& node, const NodeCommand& command);
  void check_silence();
  void lose(const NodeName& node, Follower& follower, const std::string& why);
  void gather();
  void leave(int exit_code, const std::string& why);
  void try_goodbye();
  void tell(wire::AgentBody body) { events_.write(std::move(body)); }
  [[nodiscard]] bool reachable(const NodeName& node) const;

  // lead_attempt.cpp: one attempt from choice to end
  void begin_attempt(const std::string& why);
  void choose();
  void on_chosen(const ChosenCheckpoint& chosen);
  void ask_port();
  void start_ranks(std::uint32_t port);
  void stop_all(StopHow how);
  void on_rank_gone(const RankGone& gone);
  void check_end();
  void attempt_ended();
  void after_failure(int worst);
  void make_pruner();
  [[nodiscard]] std::set<wire::CheckpointId> checkpoints_in_use() const;
  [[nodiscard]] std::vector<NodeName> eligible_nodes() const;
  [[nodiscard]] std::string load_path() const;

  // lead_end.cpp: the end of the run
  [[nodiscard]] wire::EndMark end_mark(wire::End kind, std::string by, std::string why) const;
  [[nodiscard]] std::optional<wire::EndMark> stopped_by_switch() const;
  [[nodiscard]] std::optional<wire::EndMark> end_of_run(const wire::AttemptEnded& event,
                                                        std::optional<int> planned) const;
  void conclude(const wire::EndMark& mark, const std::string& why,
                std::optional<wire::AttemptEnded> last);
  void leave_as_asked();
  void leave_once_heard(const std::string& why, Instant since);

  // lead_bench.cpp: nodes on parole are tested before they carry ranks
  bool begin_bench();
  void ask_bench();
  void on_benched(const NodeName& node, const Benched& report);
  void end_bench();

  // lead_control.cpp: words from outside, beats
  void on_control(const wire::Control& control);
  void on_level(wire::Level level, const std::string& reason);
  void on_switch(const SwitchSeen& seen);
  void save_and_leave(const std::string& why);
  void leave_now(const std::string& why);
  void save(std::uint64_t value, const std::string& why);
  void take_stacks();
  void on_stacks(const StacksDone& done);
  void tell_stacks();
  void restart(const std::string& why);
  void beat();
  void fold_and_tell(bool only_on_edge);
  [[nodiscard]] bool looks_hung() const;
  [[nodiscard]] std::string can_save() const;

  LeadWiring wiring_;
  Loop& loop_;
  const RunContext& context_;
  wire::Start start_;
  std::string directory_;  // of the generation
  EventLog events_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  LogWriter logs_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<ControlWatch> control_watch_;
  std::unique_ptr<Archiver> archiver_;
  std::unique_ptr<Pruner> pruner_;
  std::unique_ptr<Door> door_;              // null: no other node
  std::map<NodeName, Follower> followers_;  // our own node too, without a link

  Stage stage_ = Stage::Gathering;
  Instant began_{};
  std::string attempt_why_ = "first start";
  Attempt attempt_;
  Instant attempt_at_{};
  std::vector<NodeName> attempt_nodes_;
  std::optional<ChosenCheckpoint> chosen_;
  std::string loaded_;  // by the running attempt; directory name, "" = none
  bool choosing_ = false;
  std::set<std::string> damaged_told_;
  std::map<Rank, wire::RankExited> exits_;
  std::optional<wire::RankExited> first_failure_;
  bool failed_ = false, stuck_ = false;
  std::uint32_t own_restarts_ = 0, restarts_ = 0;
  Iteration previous_load_;
  std::optional<std::string> restart_why_;  // a restart is wanted once all ranks are gone
  std::optional<std::string> leaving_why_;  // an end is wanted once all ranks are gone
  std::optional<std::string> stopped_by_;   // who asked for it, of the agents themselves
  bool concluding_ = false;                 // the run is over with us
  std::optional<wire::EndMark> end_;        // told
  Loop::Timer orphan_timer_ = 0, beat_timer_ = 0, limit_timer_ = 0;

  Epoch epoch_;
  wire::Control done_;  // counters acted on; the level taken up; exclusions
  wire::Beat last_beat_;
  double slowest_iteration_ms_ = 0;
  std::optional<wire::Phase> told_phase_;
  struct PendingStacks {
    std::set<NodeName> waiting;
    std::size_t answers = 0;
    std::uint32_t ranks = 0;
    std::string directory;
  };
  std::optional<PendingStacks> stacks_;
  struct Bench {
    std::set<NodeName> nodes, waiting;
    wire::NodesBenched result;
    Instant since{};
    int round = 1;
  };
  std::optional<Bench> bench_;
  std::set<NodeName> paroled_, benched_, poor_;  // ever left out; tested here; that did badly
  int interrupts_ = 0;
  bool said_goodbye_ = false;
  int exit_code_ = 1;
  std::string goodbye_why_;
  Instant leaving_since_{};
};

}  // namespace stoker::agent
