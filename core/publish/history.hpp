// History: what can be drawn of a run, as a pure function of its journal rows: the numbers of the
// training over time, the incidents with the sentences of their decisions, the checkpoints.
// A point of the series is a digest: at most one in 30 s, and for each number the lowest, the usual
// and the highest of all iterations since the digest before, so that a spike of one iteration is
// kept although the journal holds no single iterations. Bounded: beyond `most_points` neighbours of
// the older half are folded, lowest and highest kept; of incidents and checkpoints the newest stay.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/journal.hpp"

namespace stoker::core {

enum class Metric { Loss, GradientNorm, LearningRate, StepTime, SamplesPerSecond, Tflops, Goodput };
inline constexpr std::size_t kMetrics = 7;

// "s", "samples/s"; "" = a number without a unit.
const char* unit_of(Metric metric);

// Of the iterations that a point stands for. Not finite: it was not reported.
struct Spread {
  float low, mid, high;
};

struct HistoryPoint {
  std::int64_t wall_ms = 0;  // since 1970
  std::uint64_t iteration = 0;
  std::array<Spread, kMetrics> values;
};

// Neighbours as one point: the later place, the lowest and highest of both.
HistoryPoint fold_points(const HistoryPoint& a, const HistoryPoint& b);

struct HistoryLine {
  WallTime wall;
  std::string text;  // the decision's sentence
};

struct HistoryIncident {
  std::string kind;   // of its alert; "other"
  std::string title;  // one line
  bool planned = false;
  WallTime from;
  std::optional<WallTime> to;  // empty: it goes on
  std::string ended_in;        // state
  std::uint64_t iteration = 0, repeated = 0;
  std::vector<HistoryLine> lines;
};

struct HistoryCheckpoint {
  std::uint64_t iteration = 0;
  std::string name, fate;  // fate: "" = kept, "deleted", "archived to …", "damaged: …"
  std::uint64_t bytes = 0;
  double seconds = 0;
  WallTime wall;
};

struct HistoryRanks {  // of the newest attempt
  std::uint32_t generation = 0, attempt = 0, world_size = 0;
  std::vector<std::string> nodes;  // that carry ranks, in rank order
};

class History {
 public:
  explicit History(RunName run, std::size_t most_points = 100'000);

  // Rows in order; those of other runs, and those taken before, change nothing.
  void take(const JournalRow& row);
  [[nodiscard]] Sequence taken() const { return taken_; }

  [[nodiscard]] const std::vector<HistoryPoint>& points() const { return points_; }
  [[nodiscard]] const std::deque<HistoryIncident>& incidents() const { return incidents_; }
  [[nodiscard]] const std::deque<HistoryCheckpoint>& checkpoints() const { return checkpoints_; }
  [[nodiscard]] const HistoryRanks& ranks() const { return ranks_; }
  [[nodiscard]] const std::optional<wire::Beat>& newest_beat() const { return beat_; }

 private:
  void take_digest(const JournalRow& row, const Digest& digest);
  void take_agent(const JournalRow& row, const AgentSaid& said);
  void take_decision(const JournalRow& row);
  void account_until(const JournalRow& row);
  void add_point(const HistoryPoint& point);
  void add_checkpoint(HistoryCheckpoint checkpoint);
  void mark_checkpoint(const std::string& name, const std::string& fate);

  RunName run_;
  std::size_t most_points_;
  Sequence taken_;
  std::vector<HistoryPoint> points_;
  std::deque<HistoryIncident> incidents_;
  std::deque<HistoryCheckpoint> checkpoints_;
  HistoryRanks ranks_;
  std::optional<wire::Beat> beat_;
  bool open_ = false;  // the last incident goes on
  // Time by its use, as core/publish/goodput.hpp counts it.
  std::optional<Instant> until_;
  std::string state_;
  double trained_s_ = 0, whole_s_ = 0;
  std::uint64_t reached_ = 0, iteration_ = 0, loaded_ = 0;
  wire::Phase phase_ = wire::Phase::Startup;
  std::uint64_t samples_ = 0, samples_at_ = 0;  // of the digest before, and its iteration
};

}  // namespace stoker::core

template <>
struct stoker::EnumNames<stoker::core::Metric> {
  static constexpr std::array names{"loss",          "grad_norm", "lr",     "step_s",
                                    "samples_per_s", "tflops",    "goodput"};
};
