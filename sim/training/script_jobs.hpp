// ScriptJobs: the physics of a run without agents: what the jobs of an adopted batch script do, as
// cluster, logs and checkpoint tree show it. A start loads the checkpoint that the tree names,
// writes a line for each iteration, saves, and exits with 0 where the training is over, at once
// when it begins there. Nothing of stoker is inside.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/policy.hpp"
#include "sim/cluster/cluster.hpp"
#include "sim/ports.hpp"
#include "sim/universe/random.hpp"
#include "sim/universe/scenario.hpp"
#include "sim/universe/timeline.hpp"

namespace stoker::sim {

struct ScriptLine {
  Instant seen_from;  // on the daemon's host
  Iteration iteration;
  double elapsed_ms = 0;
  bool saved = false;  // the checkpoint of this iteration; else it is completed
};

class ScriptJobs {
 public:
  enum class Stage { Boot, Startup, Load, Iterate, Save, Leave };
  struct Start {  // of a task's ranks
    std::uint32_t number = 0;
    std::uint64_t job = 0;
    std::uint32_t task = 0;
    std::vector<NodeName> nodes;
    bool alive = true;    // its processes
    bool orphan = false;  // the scheduler believes that they are gone
    bool frozen = false, failing = false;
    bool leaves = false;  // asked to save and exit, or killed
    bool saves = false;   // asked to save
    Stage stage = Stage::Boot;
    Instant stage_since;
    Iteration base;
    std::uint64_t serial = 0;  // of what is planned: older plans are void
  };
  struct Hooks {
    std::function<void(const std::string&)> say;
    std::function<void(const Start&)> begins;     // its ranks do
    std::function<void(const Start&)> completes;  // the training: it exits with 0
    std::function<void()> nears_end;              // some iterations before it
    std::function<Instant()> storage_free;        // until when the file system stands
    std::function<bool()> disk_full, doomed;
  };
  ScriptJobs(Timeline& time, Random& random, Cluster& cluster, SimFiles& files,
             const Scenario& scenario, const core::RunPolicy& policy, Hooks hooks);

  // The scheduler's hooks.
  void job_started(const SimJob& job, std::uint32_t task);
  void job_killed(const SimJob& job, std::uint32_t task, bool gently);
  void signalled(const SimJob& job, std::uint32_t task);
  void look_at_switch();  // its file was made

  // Faults; false: nothing is there that could fail so.
  bool crash(const std::string& how, std::optional<NodeName> node = {});
  bool freeze();
  bool flap(Duration lasts);
  bool lose_node(bool first);
  bool orphan();       // the scheduler takes it for dead, and it trains on
  void end_orphans();  // a person has looked for them

  [[nodiscard]] Start* live();  // the newest that the scheduler knows of, while it is there
  [[nodiscard]] const std::map<std::uint32_t, Start>& all() const { return starts_; }
  // It does what it is there for, and was not asked for anything else.
  [[nodiscard]] bool healthy(const Start& s) const;
  [[nodiscard]] std::uint32_t processes_on(std::uint64_t job, const NodeName& node) const;
  [[nodiscard]] const std::vector<ScriptLine>& lines() const { return lines_; }
  [[nodiscard]] Iteration saved() const;  // what a start resumes from
  [[nodiscard]] bool is_over() const { return saved().value >= scenario_.training.total; }
  [[nodiscard]] const std::vector<Iteration>& checkpoints() const { return checkpoints_; }
  [[nodiscard]] Iteration reached() const { return reached_; }  // by the newest line
  [[nodiscard]] Iteration best() const { return best_; }
  [[nodiscard]] Duration useful() const { return useful_; }
  [[nodiscard]] Duration lost() const { return lost_; }

 private:
  void plan(Start& s, Duration wait, void (ScriptJobs::*what)(Start&));
  void enter(Start& s, Stage stage, Duration lasts, void (ScriptJobs::*next)(Start&));
  void begin(Start& s);
  void load(Start& s);
  void loaded(Start& s);
  void iterate(Start& s);
  void iterated(Start& s);
  void save(Start& s);
  void save_done(Start& s);
  void leave(Start& s);
  void left(Start& s);
  void fail(Start& s, Duration wait);
  void failed(Start& s);
  void gone(Start& s);  // without a word
  void end(Start& s, int code);
  void write_line(Iteration iteration, bool is_save);
  [[nodiscard]] bool is_switched() const;

  Timeline& time_;
  Random& random_;
  Cluster& cluster_;
  SimFiles& files_;
  const Scenario& scenario_;
  const core::RunPolicy& policy_;
  Hooks hooks_;
  bool goes_on_;  // after a signal: it saves only
  std::map<std::uint32_t, Start> starts_;
  std::vector<ScriptLine> lines_;
  std::vector<Iteration> checkpoints_;
  Iteration reached_, best_;
  Duration useful_{}, lost_{};
};

}  // namespace stoker::sim
