// Trainer: the loop. An iteration is: run the schedule on our share of the global batch, which adds
// up the gradients over the replicas, add up a handful of numbers over all ranks, clip, update,
// tell. Everything that decides (batch, learning rate, samples, saves, exits) is a pure function of
// the position and the configuration, or is decided on rank 0 and travels with the sums.
#pragma once

#include <array>
#include <optional>

#include "recipe/batch_plan.hpp"
#include "worker/train/checkpoint/audit.hpp"
#include "worker/train/checkpoint/save.hpp"
#include "worker/train/data/read_ahead.hpp"
#include "worker/train/data/sampler.hpp"
#include "worker/train/data/samples_log.hpp"
#include "worker/train/data/training_data.hpp"
#include "worker/train/loop/gradient_sums.hpp"
#include "worker/train/loop/leave.hpp"
#include "worker/train/loop/log_line.hpp"
#include "worker/train/loop/norms.hpp"
#include "worker/train/loop/pipeline.hpp"
#include "worker/train/loop/replay.hpp"
#include "worker/train/loop/tensorboard.hpp"
#include "worker/train/memory/snapshots.hpp"
#include "worker/train/model/model.hpp"
#include "worker/train/run/rank_environment.hpp"
#include "worker/train/run/trace.hpp"

namespace stoker::train {

struct TrainerParts {  // all outlive the trainer
  const recipe::TrainConfig& config;
  const RankEnvironment& environment;
  const AuditFacts& facts;
  Model& model;
  FlatState& state;
  const ModelLayout& layout;
  Pipeline& pipeline;
  Comm& comm;
  const TrainingData& data;
  const TrainingData* validation;  // null: never evaluates
  Pulse& pulse;
  Trace& trace;
  LeaveWatch leave;
  Snapshots* snapshots = nullptr;  // null: none are made
};

class Trainer {
 public:
  // `position` is where `state` stands; `saved` says whether that is on the disk.
  Trainer(TrainerParts parts, Position position, bool saved);

  // Trains to the end or until it is asked to exit. Every failure has been reported when it
  // returns.
  ExitCode run();
  [[nodiscard]] const Position& position() const { return position_; }

 private:
  struct Step {  // of one iteration
    std::uint64_t global = 0, micro = 0;
    std::uint64_t sequence = 0;  // tokens of each sample
    double loss = 0, norm = 0;
    bool finite = true;
    bool save_wanted = false;
    bool shards_written = false;  // of the pending save, on all ranks
    LeaveReason leave = LeaveReason::None;
    Duration compute{}, whole{};
    bool replays = false;  // one of its micro-batches is computed twice
  };
  struct Window {  // since the last log line
    double loss = 0, seconds = 0;
    std::uint64_t advanced = 0, skipped = 0, samples = 0, iterations = 0;
  };

  Result<Step> step();
  Status gradients(Step& step);  // compute and agree, with the replay where it is due
  Result<double> compute(Step& step);
  Status agree(Step& step);  // numbers and decisions, over all ranks
  // trainer_checks.cpp
  Status compare();  // parameters that several ranks hold
  Status replay(const Step& step);
  Result<bool> judge_step(bool again);  // false: the step is to be made again
  Status stop_differing(const Error& error);
  Status update(const Step& step);
  void tell(const Step& step);
  [[nodiscard]] bool logs(Iteration iteration) const;
  void tell_norms();
  void note_norms(wire::Heartbeat& beat) const;       // on rank 0, for all
  void tell_window(const Step& step, double tflops);  // one log line, and TensorBoard's points
  void plot(Iteration step, const std::vector<Scalar>& scalars);
  void open_logs();
  void plan_trace();
  void trace_pending();
  // trainer_samples.cpp
  [[nodiscard]] BatchCut cut_of(const Step& step) const;
  Status note_samples(const Step& step);
  // The first `sequence` tokens of each sample, and the one that follows them.
  // `ahead`: reads of `data` are planned there.
  Result<MicroBatch> fetch(const TrainingData& data, SampleRange range, std::uint64_t sequence,
                           ReadAhead* ahead = nullptr);
  void read_ahead(const Step& step);  // our samples of this step and of the next
  Status evaluate();
  // Saves now; `later`: may end while the training goes on. False: nothing was saved, and the
  // reason was reported.
  Result<bool> save(bool later);
  Result<bool> finish_save();
  void begin_snapshot();
  Status finish_snapshot();
  wire::Manifest manifest() const;
  Result<bool> after(const Step& step);  // true: leave with code_
  ExitCode ended(const Error& error);
  [[nodiscard]] Duration leaving() const;

  TrainerParts p_;
  Position position_;
  recipe::BatchPlan plan_;
  std::uint64_t total_ = 0;
  ReadAhead ahead_;
  bool fetches_ = false;  // a rank in the middle of the pipeline reads no samples
  GradientSums sums_;
  Replay replay_;
  std::optional<Norms> norms_;  // of the last step that was logged
  std::optional<SamplesLog> samples_log_;
  std::optional<Tensorboard> board_;
  Staging staging_;
  std::unique_ptr<PendingSave> pending_;
  std::optional<Instant> beside_since_;  // the pending save is written while the training goes on
  std::optional<Iteration> last_saved_;
  Window window_;
  Duration last_iteration_{}, last_save_{};
  bool disk_full_ = false;           // why the last save failed
  bool numbers_differ_ = false;      // why the training ends
  bool data_unreadable_ = false;     // likewise
  bool samples_log_failed_ = false;  // reported once
  ExitCode code_ = ExitCode::Finished;
};

}  // namespace stoker::train
