// Training: the physics of a run's jobs, as the run directory shows them. A generation is a job's
// task that won its claim. What its lead decides, lead::step decides; here is what the ranks and
// nodes do then: how long a step takes, what breaks, when processes are gone. Progress is a
// function of time between boundaries (a save, an evaluation), so that months cost little. Orders,
// control, lines and lineage are the real formats.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lead/step.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/ports.hpp"
#include "sim/universe/random.hpp"
#include "sim/universe/scenario.hpp"
#include "sim/universe/timeline.hpp"
#include "wire/agent_event.hpp"
#include "wire/control.hpp"
#include "wire/orders.hpp"

namespace stoker::sim {

struct SimCheckpoint {
  wire::CheckpointId id;
  bool damaged = false;
  bool late = false;  // of a generation that had been given up
  TrainingLine line;
  bool drifted = false;   // its replicas do not agree
  bool archived = false;  // its copy on another disk was read back
};

// Where the ranks stand. Waiting: no ranks.
enum class Stage { Waiting, Startup, Load, Iterate, Save, Evaluate };

// The lead's process and its agents, as the network between them shows them.
struct SimLead {
  lead::State state;
  std::deque<lead::EventBody> waiting;  // fed one after the other
  bool stepping = false;
  std::optional<Instant> woken;        // when its next Tick is planned
  Instant ticked;                      // its newest Tick
  std::set<NodeName> connected;        // agents that have ever been there
  std::map<NodeName, Instant> silent;  // died, and when
  std::set<NodeName> left;             // as they were ordered
  // What one step asked of the nodes, until all its actions are performed.
  std::optional<wire::StopHow> stop;
  bool all_leave = false;
  std::vector<NodeName> to_bench;
  std::uint64_t saves_asked = 0;
  std::string stacks;
};

// All its processes are stopped (`scontrol suspend`): no work is done, no timer fires, no message
// is read.
struct Standstill {
  std::optional<Instant> since;  // now
  Instant began, ended;          // the newest that is over
  Duration all{};                // of all of them, of the present one too until its end
};

struct SimGeneration {
  Generation number;
  std::uint64_t job = 0;
  std::uint32_t task = 0;
  SimLead lead;
  bool alive = true;    // its processes
  bool zombie = false;  // the scheduler believes that it is dead
  Standstill stand;
  // The ranks of the newest attempt.
  Attempt attempt;
  std::vector<NodeName> attempt_nodes;
  std::set<NodeName> busy;                   // nodes where processes of them live
  bool stopping = false;                     // they were ordered to go
  Iteration resume;                          // where they began
  std::optional<wire::CheckpointId> loaded;  // what they began with
  Stage stage = Stage::Waiting;
  Instant stage_since;
  Iteration base;  // completed when the stage began
  Duration step{};
  Instant slow_since;  // of its pace; 0: as usual
  TrainingLine line;   // what it trains on
  std::optional<Instant> frozen_at, stopped_at;
  std::optional<Rank> odd;     // stands still alone
  bool in_collective = false;  // with all others
  Duration others_later{};     // their last progress came so long after its last; negative: before
  Instant last_fault;
  std::uint64_t serial = 0;    // of what is planned: older plans are void
  std::uint64_t sampled = 0;   // iterations that beats have reported
  std::uint64_t digested = 0;  // iterations that digests have reported
  std::uint64_t saves_answered = 0;
  bool copies = false;               // a checkpoint to another disk
  std::optional<wire::EndMark> end;  // end.json
  // Snapshots that nodes hold, the newest attempt that made some, and where each attempt began.
  std::map<NodeName, std::vector<wire::HeldSnapshot>> memory;
  Attempt copied;
  std::map<Attempt, Iteration> begun;
  bool from_memory = false;  // the newest attempt

  [[nodiscard]] const wire::Start& start() const { return lead.state.setup.start; }
  [[nodiscard]] const wire::Orders& orders() const { return start().orders; }
  [[nodiscard]] const wire::Lineage& lineage() const { return start().lineage; }
  [[nodiscard]] const std::vector<NodeName>& nodes() const { return start().nodes; }
  [[nodiscard]] const NodeName& host() const { return start().lead; }  // of the lead
};

class Training {
 public:
  struct Hooks {
    std::function<void(Generation, const std::string& line)> line;  // appended to lead.jsonl
    std::function<void(const std::string&)> say;
    std::function<void(const std::string&)> broken;     // a safety invariant
    std::function<void(const std::string&)> ends_well;  // ranks that are well are ordered to end
    std::function<Instant()> storage_free;              // until when the file system stands
    std::function<bool()> disk_full;
    std::function<bool()> doomed;  // ranks that start now die at once
    // Before checkpoints are deleted; a generation begins by orders that go back.
    std::function<void(const SimGeneration&, const std::vector<wire::CheckpointId>&)> deletes;
    std::function<void(const SimGeneration&)> goes_back;
    std::function<void(const SimGeneration&)> begins, ends;  // a generation; the run with it
    std::function<bool()> late;                              // the nodes see files late
  };
  Training(Timeline& time, Random& random, Cluster& cluster, SimFiles& files,
           const Scenario& scenario, Guard broken, Hooks hooks);

  // The scheduler's hooks.
  void job_started(const SimJob& job, std::uint32_t task);
  void job_killed(const SimJob& job, std::uint32_t task, bool gently);
  void control_written();  // control.json was replaced
  void orders_written(OrderNumber number);

  // Faults; false: nothing is there that could fail so.
  bool crash(const std::string& how, std::optional<NodeName> node = {});
  bool freeze(bool one);
  bool flap(const NodeName& node, Duration lasts);
  bool suspend(Duration lasts);
  bool skew_clock(Duration by);  // of the lead's host
  bool lose_node(const NodeName& node);
  bool tear_newest();
  bool tear_next() { return tears_next_ = true; }  // what is saved next is damaged as it is written
  void look_at_nodes();                            // slow and bad nodes changed
  bool sicken(Ailment ailment);                    // the weights of what trains now
  void forget_rate(bool forgets) { forgets_rate_ = forgets; }
  void read_other_data(std::uint64_t order) { other_data_ = order; }  // 0: what was saved
  void drift(bool drifts) { drifts_ = drifts; }
  void mend();  // a person has repaired what starts and checkpoints suffer from

  [[nodiscard]] SimGeneration* live();  // the newest one, while its processes are there
  [[nodiscard]] const std::map<Generation, SimGeneration>& all() const { return generations_; }
  std::map<Generation, SimGeneration>& all() { return generations_; }
  [[nodiscard]] Iteration completed(const SimGeneration& g) const;
  [[nodiscard]] wire::Beat beat(SimGeneration& g);
  [[nodiscard]] std::optional<wire::SlowestRank> slowest(const SimGeneration& g) const;
  // What was iterated since the digest before.
  void tell_iterations(SimGeneration& g, core::Digest& digest);
  [[nodiscard]] bool goes_on(const SimGeneration& g) const;  // where its checkpoint was
  [[nodiscard]] bool sick() const { return !ailments_.empty(); }
  [[nodiscard]] bool healthy(const SimGeneration& g) const;
  [[nodiscard]] const std::vector<SimCheckpoint>& checkpoints() const { return checkpoints_; }
  [[nodiscard]] std::vector<std::uint64_t> pins_ordered();  // iterations, as a node sees it
  [[nodiscard]] std::uint64_t failures() const { return failures_; }
  [[nodiscard]] std::uint64_t from_memory() const { return from_memory_; }
  // From the usual pace, which is unknown for a run that was slow from its first minutes on.
  [[nodiscard]] std::uint32_t slowdowns() const { return slowdowns_; }
  [[nodiscard]] Duration lost() const { return lost_; }
  [[nodiscard]] Iteration best() const { return best_; }
  [[nodiscard]] Iteration reached() const;  // as of settle(), by the newest generation
  [[nodiscard]] Duration useful() const { return useful_; }
  void settle();  // counts the progress of what runs now

 private:
  // training.cpp: claims, generations, what files say
  void await_predecessors(std::uint64_t job, std::uint32_t task);
  void mint(std::uint64_t job, std::uint32_t task, int waited = 0);
  void begin(SimGeneration minted);
  [[nodiscard]] bool is_over(OrderNumber order) const;
  [[nodiscard]] lead::ChosenCheckpoint choose(const wire::Lineage& lineage, bool verify) const;
  // What orders name exactly is there and, as far as they want it verified, undamaged: else the
  // agent starts nothing.
  [[nodiscard]] bool finds_checkpoint(const wire::Orders& orders) const;
  // As a node sees them, or as they are.
  [[nodiscard]] const std::optional<wire::Orders>& newest_orders(bool seen = true);
  void tell(SimGeneration& g, wire::AgentBody body);
  // Does it later, unless the generation is gone; the second one, unless the ranks do something
  // else by then.
  void later(SimGeneration& g, Duration wait, std::function<void(SimGeneration&)> what);
  void plan(SimGeneration& g, Duration wait, std::function<void(SimGeneration&)> what);

  // training_lead.cpp: the shell of lead::step
  void feed(SimGeneration& g, lead::EventBody body);
  void run(SimGeneration& g);  // what waits
  void wake(SimGeneration& g);
  void break_guard(SimGeneration& g) const;
  [[nodiscard]] lead::Tick look(const SimGeneration& g) const;
  void perform(SimGeneration& g, const lead::Action& action);
  void command(SimGeneration& g, const NodeName& node, const wire::NodeCommand& command);
  void perform_on_nodes(SimGeneration& g);
  void report(SimGeneration& g, const NodeName& node, wire::NodeReport report);
  void write_end(SimGeneration& g, const wire::EndMark& mark);
  void send_beat(SimGeneration& g);
  void bench(SimGeneration& g, std::vector<NodeName> nodes);
  void take_stacks(SimGeneration& g, const std::string& directory);
  void agents_leave(SimGeneration& g);

  // training_ranks.cpp: what ranks do
  void start_ranks(SimGeneration& g, const lead::StartAttempt& start);
  void enter(SimGeneration& g, Stage stage, Duration lasts);
  void next_stage(SimGeneration& g);
  void iterate(SimGeneration& g);
  void save_now(SimGeneration& g, std::uint64_t value);
  void stop_ranks(SimGeneration& g, wire::StopHow how);
  void end_ranks(SimGeneration& g, Duration wait, wire::RankExited how);
  void ranks_gone(SimGeneration& g, std::vector<NodeName> nodes, wire::RankExited how);
  void rank_fails(SimGeneration& g, const NodeName& node, int code, int signal);
  void halt(SimGeneration& g);  // no progress from now on
  void die(SimGeneration& g);   // all its processes, without a word
  void finish_save(SimGeneration& g);
  void account(SimGeneration& g);

  // training_suspended.cpp
  void go_on(SimGeneration& g);
  [[nodiscard]] Duration age_of(const SimGeneration& g, Duration worked) const;

  // training_memory.cpp
  void copy_snapshots(SimGeneration& g);
  void tell_memory(SimGeneration& g, const NodeName& node);
  void list_snapshots(SimGeneration& g, const NodeName& node);
  Iteration resume_from_memory(SimGeneration& g, const lead::StartAttempt& start);

  void prune(SimGeneration& g);
  void archive(SimGeneration& g);
  // It is to be copied, and no copy of it was read back.
  [[nodiscard]] static bool must_stay(const SimGeneration& g, const SimCheckpoint& c);
  [[nodiscard]] TrainingLine line_of_start(const SimGeneration& g);
  [[nodiscard]] double warmth() const;
  void cure(const SimGeneration& g);
  bool refuses_load(SimGeneration& g);
  [[nodiscard]] std::map<NodeName, std::vector<wire::RankSample>> samples(
      const SimGeneration& g) const;

  Timeline& time_;
  Random& random_;
  Cluster& cluster_;
  SimFiles& files_;
  const Scenario& scenario_;
  Guard broken_;
  Hooks hooks_;
  std::map<Generation, SimGeneration> generations_;
  std::set<std::string> claims_;
  std::vector<SimCheckpoint> checkpoints_;
  std::uint64_t failures_ = 0, from_memory_ = 0;
  std::uint32_t slowdowns_ = 0;
  Iteration best_;
  Duration lost_{}, useful_{};
  std::vector<Ailment> ailments_;
  bool forgets_rate_ = false, drifts_ = false, tears_next_ = false;
  std::uint64_t other_data_ = 0;
  std::string orders_text_;  // of orders_: the newest that were read
  std::optional<wire::Orders> orders_;
  std::map<NodeName, Duration> skews_;           // of clocks
  std::map<std::string, Instant> hidden_until_;  // orders that the nodes do not see yet
  Instant obeyed_until_;                         // an older control is never seen after a newer one
};

}  // namespace stoker::sim
