// Universe: one simulated life of a run: cluster, agents, daemon, people and everything that goes
// wrong, from one seed. The same seed gives the same trace, bit for bit.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim/universe/checker.hpp"
#include "sim/universe/daemon.hpp"
#include "sim/universe/followers.hpp"
#include "sim/universe/script_eyes.hpp"

namespace stoker::sim {

struct Settings {
  std::uint64_t seed = 1;
  Guard broken = Guard::None;
  std::set<std::uint32_t> skip;                   // faults by their number, left out (shrinking)
  std::function<void(const std::string&)> trace;  // each line of the story
};

struct Outcome {
  std::vector<std::string> safety, liveness;
  std::uint32_t faults = 0;  // that struck
  std::uint32_t incidents = 0, manual = 0;
  std::uint32_t followed = 0;     // checkpoints whose followers ended well
  std::uint64_t from_memory = 0;  // attempts that resumed from a snapshot
  Duration length{};              // simulated
  Duration waited{};              // of it, without an allocation
  Duration useful{}, lost{};      // of the training: iterations that count, and repeated ones
  Iteration reached;
  std::string state, why;  // at the end
  Checker::Found found;
  [[nodiscard]] double ettr() const;  // useful / (length - waited)
};

class Universe {
 public:
  Universe(const Scenario& scenario, Settings settings);
  ~Universe();
  Outcome live();

 private:
  struct Line {
    Generation generation;
    std::string text;
    Attempt begun{};  // by it
  };
  void make_daemon(SimJournal journal, Epoch epoch, Duration away);
  void say(const std::string& text);
  void on_row(const core::JournalRow& row, const core::SiteState& state);
  [[nodiscard]] Excuse excuse() const;
  void take_lines();
  [[nodiscard]] Attempt begun_later(std::uint64_t at) const;
  void look_at_end();
  void plan_digests();
  std::vector<core::Input> digests();
  void start_daemon(Duration away);
  void watch_silence();
  bool tell_hang(const core::RunState& run);
  void look_at_switches();
  void look_at_followers();
  void look_after_held();

  // universe_faults.cpp
  void plan_faults();
  void plan_next(Fault fault, Duration mean);
  void plan_event(const PlannedFault& event, std::uint32_t number);
  void strike(Fault fault, Duration lasts, const PlannedFault& how = {});
  void strike_scheduler(Fault fault, Duration lasts);
  void strike_daemon(Fault fault);
  void strike_people(Fault fault);
  bool strike_training(Fault fault, Duration lasts);
  bool strike_storage(Fault fault, Instant end);
  void recur_bad_nodes();

  // universe_script.cpp: a run without agents, and what only that has
  void make_script();
  void see_script(const core::SiteState& state);
  std::vector<core::Input> look_at_script(bool at_once);
  void plan_looks();
  bool strike_script(Fault fault, Duration lasts);
  bool strike_more(Fault fault);
  void ask(const std::string& verb);
  void set_kill_switch(Duration until);
  void ask_at_end();
  void mend_script();

  // universe_more.cpp
  bool strike_numbers(Fault fault, Duration lasts, const PlannedFault& how);
  bool strike_site(Fault fault, Duration lasts);
  void tell_kernel(const SimGeneration& g, wire::KernelLine line);
  bool flap_link(Duration lasts);
  bool lose_rows(Duration lasts);
  bool reads_torn(const std::string& line);
  void refuse_files();
  void heal();

  const Scenario& scenario_;
  Settings settings_;
  core::RunPolicy told_policy_;  // with a guard taken out
  Random random_;
  Timeline time_;
  SimFiles files_;
  SimAlerts alerts_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<SlurmText> slurm_;
  std::unique_ptr<Training> training_;
  std::unique_ptr<Followers> followers_;
  std::unique_ptr<ScriptJobs> scripts_;  // instead of agents; null: there are agents
  std::unique_ptr<ScriptEyes> eyes_;
  std::unique_ptr<Checker> checker_;
  std::unique_ptr<Daemon> daemon_;
  std::vector<std::unique_ptr<Daemon>> older_;
  std::vector<Line> lines_;
  std::size_t taken_ = 0, delivered_ = 0;
  std::vector<std::size_t> stale_;  // lines that turn up again
  Instant lines_from_;              // until then the agents' lines are not seen
  Instant stalled_at_;              // when the storage began to hang
  Instant delayed_until_;           // lines that are read late though the storage answers
  Instant storage_free_, disk_full_until_, stale_until_, torn_until_, doomed_until_, blind_end_,
      late_until_, person_at_;
  Instant heard_;
  bool silent_told_ = false, healed_ = false;
  std::uint32_t faults_ = 0, numbered_ = 0, struck_ = 0, switches_ = 0;
  std::string state_;  // of the run, as the daemon has it
  Duration waited_{};
  Instant waiting_since_;
  bool waiting_ = true;
};

}  // namespace stoker::sim
