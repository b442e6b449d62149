// Checker: the invariants, watched at every row of the journal and every effect. Safety: what must
// never happen; liveness: where the run must be once the faults have healed. Compares the decider
// with the truth that only the simulation knows. To add an invariant: a check in row(), acted() or
// rest(), and a guard in scenario.hpp whose removal it catches.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/engine/journal.hpp"
#include "core/state.hpp"
#include "sim/training/script_jobs.hpp"
#include "sim/training/training.hpp"
#include "sim/universe/scenario.hpp"
#include "sim/universe/sim_journal.hpp"

namespace stoker::sim {

// What may excuse a decision that looks wrong: the world was lied about, or a person asked.
struct Excuse {
  bool lines_delayed = false;  // the agents' lines are seen late, or were until a moment ago
  bool person = false;         // an operator or a switch asked for it
  Instant unreadable;          // the newest moment in which no log could be read, future ones too
};

// A run in this state wants no training: what starts all the same is ended.
bool given_up(const std::string& state);

class Checker {
 public:
  Checker(const Scenario& scenario, Training& training, Cluster& cluster);

  void row(const core::JournalRow& row, const core::SiteState& state, const Excuse& excuse);
  void acted(const core::Intent& intent, const SimJournal& journal);
  void submitted(const std::string& token);  // an sbatch reached the controller
  void after_kill(const SimJournal& journal);
  void broken(const std::string& what);  // found elsewhere
  // Before a generation's lead deletes checkpoints; when one begins by orders that go back.
  void deletes(const SimGeneration& g, const std::vector<wire::CheckpointId>& gone);
  void goes_back(const SimGeneration& g);
  // A generation begins; the run is over with one: from then on none may, until a person resumes.
  void begins(const SimGeneration& g);
  void ends(const SimGeneration& g) { ended_ = g.number; }
  // A bad node has failed once more: while it is excluded, an allocation does not go on with it.
  void fails_again(const SimGeneration& g, const NodeName& node);
  // checker_script.cpp: a run without agents.
  void watch(const ScriptJobs& scripts) { scripts_ = &scripts; }
  void script_begins(const ScriptJobs::Start& s, const Excuse& excuse);
  void script_completes(const ScriptJobs::Start& s);
  // At the end, after everything has healed.
  void rest(const core::SiteState& state, const SimFiles& files, const SimAlerts& alerts,
            Iteration since, Iteration reached);
  void count_lines(std::size_t told, std::size_t taken);

  [[nodiscard]] const std::vector<std::string>& safety() const { return safety_; }
  [[nodiscard]] const std::vector<std::string>& liveness() const { return liveness_; }
  [[nodiscard]] std::uint32_t manual() const { return manual_; }
  [[nodiscard]] std::uint32_t incidents() const { return incidents_; }
  struct Found {                                      // how detectors did against the truth
    Duration hang_longest{}, slow_longest{};          // from the fault to the word
    std::uint32_t hangs = 0, slows = 0, doubled = 0;  // doubled: hangs under a doubled limit
    std::uint32_t slowdowns = 0;                      // that there were
    std::uint32_t false_hangs = 0, false_slows = 0;
    std::map<std::string, std::uint32_t> alerts;  // raised, by kind
  };
  [[nodiscard]] const Found& found() const { return found_; }
  void now(Instant at) { now_ = at; }

 private:
  void check_actions(const core::JournalRow& row, const core::SiteState& state,
                     const Excuse& excuse);
  // checker_cancels.cpp
  [[nodiscard]] bool hits_a_living(const core::Cancel& cancel);
  void note_order(const core::JournalRow& row, const core::SiteState& state);
  void check_repeated(const core::JournalRow& row, const core::SiteState& state,
                      const core::Cancel& cancel);
  void check_destruction(const core::JournalRow& row, const Excuse& excuse);
  void check_idle(const core::JournalRow& row);
  void check_rate(const core::JournalRow& row, const core::SiteState& state, bool resumed);
  void check_budget(const core::RunState& run, bool resumed);
  void check_exclusions(const core::SiteState& state);
  void check_blamed(const core::JournalRow& row, const core::SiteState& state);
  void check_condemned(const core::JournalRow& row, const core::SiteState& state);
  void note_lost(const core::JournalRow& row);
  void check_rollback(const core::JournalRow& row, const core::SiteState& state);
  void judge_hang(const core::JournalRow& row, const Excuse& excuse);
  void judge_alert(const core::SendAlert& alert);
  void stuck(const std::string& what);
  [[nodiscard]] Iteration trained() const;
  void check_script(const core::JournalRow& row, const core::SiteState& state,
                    const Excuse& excuse);
  void check_script_cancel(const core::JournalRow& row, const core::Cancel& cancel,
                           const Excuse& excuse);
  void rest_script(const core::RunState& run);
  [[nodiscard]] bool is_array(std::uint64_t job) const;
  [[nodiscard]] bool is_behind_unseen(const ScriptJobs::Start& s) const;

  const Scenario& scenario_;
  Training& training_;
  Cluster& cluster_;
  Instant now_;
  bool blind_ = false;
  bool doubled_ = false;          // the limit of an iteration, before this row
  std::vector<Instant> taken_;    // submissions since the last iteration
  Iteration trained_, furthest_;  // in the world
  Iteration shown_;               // to the decider, of what it shows late
  Generation known_;              // the newest that the decider had heard of before this row
  std::vector<EffectKey> performed_;
  std::map<std::string, Instant> alerts_wanted_;  // since when
  std::vector<std::string> safety_, liveness_;
  std::uint32_t manual_ = 0, incidents_ = 0;
  Found found_;
  Instant odd_until_;           // starts are held against a line that did not go on itself
  std::uint32_t restarts_ = 0;  // decided since the best iteration grew
  Iteration best_;
  std::optional<Generation> ended_;             // the run is over with it
  SharedMap<NodeName, core::NodeEntry> nodes_;  // as last seen
  std::map<std::pair<Generation, NodeName>, std::uint32_t> failed_again_;
  std::set<std::string> lost_;  // checkpoints, gone or damaged, as agents said
  std::string going_back_to_;   // a checkpoint: decided, and not yet trained beyond it
  JobId to_end_;                // the task that the present recovery ends
  const ScriptJobs* scripts_ = nullptr;
  struct Completed {  // a script's training
    Instant at;
    std::uint64_t job = 0;
    std::uint32_t task = 0;
    bool reported = false;  // the decider was shown COMPLETED
    bool resumed = false;   // by a person, since
  };
  std::optional<Completed> completed_;
  Generation ordered_;                // of the newest order that ends a job
  std::string asked_;                 // the newest order that was taken, and where it leads
  std::uint32_t unheard_ = 0;         // a start that was cancelled while its logs could not be read
  std::set<std::uint32_t> unwanted_;  // starts that were cancelled while nothing was to run
  bool array_ = false;                // it has one of its own
  std::set<JobId> ends_seen_;         // that the decider was shown
};

}  // namespace stoker::sim
