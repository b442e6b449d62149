// Training: the agents of a run and the ranks they care for, as the run directory shows them. A
// generation is a job's task that won its claim; its lead writes lines, obeys control.json and
// restarts attempts. Progress is a function of time between boundaries (a save, an evaluation), so
// that months cost little. Orders, control, lines and lineage are the real formats.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/cluster.hpp"
#include "sim/ports.hpp"
#include "sim/random.hpp"
#include "sim/scenario.hpp"
#include "sim/timeline.hpp"
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

// Where an attempt stands.
enum class Stage { Waiting, Startup, Load, Iterate, Save, Evaluate };

struct SimGeneration {
  Generation number, parent;
  wire::Lineage lineage;
  wire::Orders orders;
  std::uint64_t job = 0;
  std::uint32_t task = 0;
  std::vector<NodeName> nodes;  // of the allocation
  std::set<NodeName> lost, excluded;
  bool alive = true;    // its processes
  bool zombie = false;  // the scheduler believes that it is dead
  Attempt attempt;
  std::vector<NodeName> attempt_nodes;
  Iteration resume;  // of the next attempt
  Stage stage = Stage::Waiting;
  Instant stage_since;
  Iteration base;  // completed when the stage began
  Duration step{};
  Instant slow_since;  // of its pace; 0: as usual
  TrainingLine line;   // what it trains on
  std::optional<Instant> frozen_at;
  std::optional<Rank> odd;
  Instant last_fault;  // of this attempt
  std::uint32_t own_restarts = 0;
  std::uint64_t serial = 0;  // of what is planned: older plans are void
  Epoch epoch;
  wire::Asked done;
  wire::Level level = wire::Level::Run;
  std::optional<std::string> leaving;
  std::uint64_t digested = 0;  // iterations that digests have told
  std::uint64_t saves_answered = 0;
  bool copies = false;               // a checkpoint to another disk
  std::optional<wire::EndMark> end;  // end.json
};

class Training {
 public:
  struct Hooks {
    std::function<void(Generation, const std::string& line)> line;  // appended to lead.jsonl
    std::function<void(const std::string&)> say;
    std::function<void(const std::string&)> broken;     // a safety invariant
    std::function<void(const std::string&)> ends_well;  // ranks that are well are told to end
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
  // From the usual pace, which nobody knows of a run that was slow from its first minutes on.
  [[nodiscard]] std::uint32_t slowdowns() const { return slowdowns_; }
  [[nodiscard]] Duration lost() const { return lost_; }
  [[nodiscard]] Iteration best() const { return best_; }
  [[nodiscard]] Iteration reached() const;  // as of settle(), by the newest generation
  [[nodiscard]] Duration useful() const { return useful_; }
  void settle();  // counts the progress of what runs now

 private:
  void mint(std::uint64_t job, std::uint32_t task, int waited = 0);
  [[nodiscard]] bool is_over(std::uint64_t order) const;
  void finish(SimGeneration& g);
  void choose(SimGeneration& g);
  void begin_attempt(SimGeneration& g, const std::string& why);
  void enter(SimGeneration& g, Stage stage, Duration lasts);
  void next_stage(SimGeneration& g);
  void iterate(SimGeneration& g);
  void finish_save(SimGeneration& g, bool last);
  void end_attempt(SimGeneration& g, int code, const NodeName& node, bool told);
  void leave(SimGeneration& g, int code, const std::string& why);
  void save_and_leave(SimGeneration& g, const std::string& why);
  void obey(SimGeneration& g, const wire::Control& control);
  void obey_level(SimGeneration& g, const wire::Control& control);
  void prune(SimGeneration& g);
  void archive(SimGeneration& g);
  // It is to be copied, and no copy of it was read back.
  [[nodiscard]] static bool must_stay(const SimGeneration& g, const SimCheckpoint& c);
  [[nodiscard]] TrainingLine line_of_start(const SimGeneration& g);
  [[nodiscard]] double warmth() const;
  void cure(const SimGeneration& g);
  bool refuses_load(SimGeneration& g);
  // What orders name exactly is there and, as far as they want it verified, undamaged: else the
  // agent starts nothing.
  [[nodiscard]] bool finds_checkpoint(const wire::Orders& orders) const;
  // As a node sees them, or as they are.
  [[nodiscard]] const std::optional<wire::Orders>& newest_orders(bool seen = true);
  void tell(SimGeneration& g, wire::AgentBody body);
  void plan(SimGeneration& g, Duration wait, std::function<void(SimGeneration&)> what);
  void account(SimGeneration& g);
  [[nodiscard]] std::vector<NodeName> eligible(const SimGeneration& g) const;
  [[nodiscard]] Iteration best_checkpoint(const wire::Lineage& lineage, bool verify);

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
  std::uint64_t failures_ = 0;
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
