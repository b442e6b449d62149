// ReplayRun: one run that lives again by its logs: the engine, the detectors and the policy that
// the daemon uses, in virtual time, fed with what the logs said at the time they said it. What the
// decider does has no effect on the logs; when they go on after a decision, the run is put where
// they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/cause/diagnosis.hpp"
#include "diagnose/parse/metrics.hpp"
#include "diagnose/parse/phase_line.hpp"
#include "sim/world.hpp"
#include "watch/digest_folder.hpp"

namespace stoker::cli {

struct Detection {
  WallTime at;
  std::string kind;      // of the alert: hang rank_crash node_fault save_overdue …
  std::string evidence;  // one sentence
  std::string decision;  // what would have been done, with its reason
  std::string state;     // of the run after it
  bool acted = false;    // the training would have been interrupted
  // Of an acted one: what the log shows. "restarted" "went_on" (a false alarm) "ended".
  std::string log;
  std::optional<WallTime> until;  // when it went on, or the log's end
  double saved_s = 0;
};

struct Said {  // what the logs' lines were taken for
  WallTime at;
  std::string text;
};

class ReplayRun {
 public:
  struct Shape {
    std::vector<NodeName> nodes;
    std::uint32_t ranks = 1;
  };
  ReplayRun(core::RunPolicy policy, Shape shape);

  // Times are milliseconds since 1970 and never go back.
  Status begin(std::int64_t ms);
  Status advance(std::int64_t ms);  // nothing was written until then
  // An iteration was completed. `restarted`: the logs show a start since the one before.
  Status iteration(const diagnose::IterationMetrics& metrics, bool restarted);
  Status phase(const diagnose::PhaseLine& line);
  // `goes_on`: the logs show later that the training went on.
  Status diagnosed(const diagnose::Diagnosis& diagnosis, bool goes_on);
  void over() { over_ = true; }  // what follows is no silence of the training
  Status finish();

  [[nodiscard]] const std::vector<Detection>& detections() const { return detections_; }
  [[nodiscard]] const std::vector<Said>& said() const { return said_; }

 private:
  void observe(const core::JournalRow& row);
  Status feed(core::EventBody body, bool site = false);
  Status say(wire::AgentBody body);
  Status start_attempt(Iteration from);
  Status start_generation(Iteration from);
  Status rejoin(Iteration from);
  Status enter(wire::Phase phase);
  Status process_ends(const diagnose::Diagnosis& diagnosis);
  void settle(const std::string& what, Duration start);
  std::vector<core::Input> digests();
  wire::Beat beat_now();
  [[nodiscard]] const core::RunState& run() const;

  core::RunPolicy policy_;
  Shape shape_;
  sim::World world_;
  std::int64_t begin_ms_ = 0;
  Generation generation_;
  Attempt attempt_;
  JobId job_;
  std::optional<watch::DigestFolder> folder_;
  wire::Beat beat_;
  Instant progress_at_, phase_since_;
  std::optional<Duration> start_took_;  // from the first line to the first iteration
  std::optional<std::uint64_t> saved_;  // the last checkpoint reported
  bool acted_ = false, over_ = false;
  std::vector<Detection> detections_;
  std::vector<Said> said_;
};

}  // namespace stoker::cli
