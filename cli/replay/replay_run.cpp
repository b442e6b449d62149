// ReplayRun: what logs contain, as the events that agents and the scheduler would have reported.
#include "cli/replay/replay_run.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "diagnose/as_event.hpp"

namespace stoker::cli {

namespace {

constexpr std::size_t kMostKept = 10'000;  // detections, and sentences
constexpr std::size_t kMostNamed = 500;    // nodes that are none of the run's, see diagnosed()
constexpr double kSure = 0.6;              // as the decider has it (core/recover/recover.hpp)

std::int64_t milliseconds(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

// The scheduler's word for the end of the job, where the lines tell one.
std::optional<core::JobState> job_end(diagnose::FailureClass c) {
  using diagnose::FailureClass;
  if (c == FailureClass::SlurmTimeLimit) return core::JobState::Timeout;
  if (c == FailureClass::SlurmPreempted) return core::JobState::Preempted;
  if (c == FailureClass::SlurmNodeFail) return core::JobState::NodeFail;
  if (c == FailureClass::SlurmCancelled) return core::JobState::Cancelled;
  return std::nullopt;
}

// Failures with which no process ends by itself.
bool leaves_ranks_alive(diagnose::FailureClass c) {
  using diagnose::FailureClass;
  static constexpr std::array kAlive{FailureClass::Hang,       FailureClass::SlowNode,
                                     FailureClass::FsStale,    FailureClass::NetLinkDown,
                                     FailureClass::LossNanInf, FailureClass::LossScaleCollapse,
                                     FailureClass::LossSpike,  FailureClass::GradOverflowSkip};
  return std::find(kAlive.begin(), kAlive.end(), c) != kAlive.end();
}

bool is_running(std::string_view state) {
  return state == "starting" || state == "training" || state == "suspect";
}

}  // namespace

ReplayRun::ReplayRun(core::RunPolicy policy, Shape shape)
    : policy_(std::move(policy)),
      shape_(std::move(shape)),
      world_([this](const core::JournalRow& row) { observe(row); }) {
  if (policy_.run.empty()) policy_.run = RunName("replay");
  if (policy_.directory.empty()) policy_.directory = fmt::format("/runs/{}", policy_.run.text);
  if (shape_.nodes.empty()) shape_.nodes = {NodeName("a-node")};
  world_.journal.forget_rows();
}

const core::RunState& ReplayRun::run() const {
  return world_.state().runs.at(policy_.run);
}

void ReplayRun::observe(const core::JournalRow& row) {
  const core::Decision& d = row.decision;
  const bool interrupts = is_running(d.from) && !d.to.empty() && !is_running(d.to);
  if (interrupts) acted_ = true;
  bool told = false;
  for (const core::Action& action : d.actions) {
    const auto* alert = std::get_if<core::SendAlert>(&action);
    if (alert == nullptr || alert->resolved || alert->severity == core::Severity::Info) continue;
    told = true;
    if (detections_.size() >= kMostKept) continue;
    detections_.push_back({row.event.wall, alert->alert_kind, alert->summary, d.reason, d.to,
                           interrupts, "", std::nullopt, 0});
  }
  const bool of_logs = std::holds_alternative<core::Diagnosed>(row.event.body);
  if (of_logs && !told && !d.reason.empty() && said_.size() < kMostKept)
    said_.push_back({row.event.wall, d.reason});
}

Status ReplayRun::feed(core::EventBody body, bool site) {
  return world_.feed({site ? RunName{} : policy_.run, std::move(body), {}});
}

Status ReplayRun::say(wire::AgentBody body) {
  core::AgentSaid said;
  said.generation = generation_;
  said.from = "lead";
  said.event.at = world_.clock.now();
  said.event.wall = world_.clock.wall();
  said.event.body = std::move(body);
  return feed(std::move(said));
}

Status ReplayRun::begin(std::int64_t ms) {
  begin_ms_ = ms;
  world_.clock.start_at(WallTime(std::chrono::milliseconds(ms)));
  STOKER_TRY_STATUS(world_.start(core::DaemonStarted{"replay", Epoch{1}, 0ns, true}));
  for (const NodeName& node : shape_.nodes)
    STOKER_TRY_STATUS(feed(core::NodeSeen{node, true, "IDLE", ""}, true));
  STOKER_TRY_STATUS(feed(core::RunAdded{policy_, "replay"}));
  return start_generation(Iteration{});
}

// The newest submission's next task runs.
Status ReplayRun::start_generation(Iteration from) {
  const auto& jobs = world_.scheduler.jobs();
  if (jobs.empty()) return fail("the policy submits no job", policy_.run.text);
  const std::uint64_t newest = jobs.rbegin()->first;
  job_ = {newest, newest == job_.job ? job_.task + 1 : 1};
  core::JobSeen seen;
  seen.token = world_.scheduler.token_of(newest);
  seen.job = job_;
  seen.state = core::JobState::Running;
  seen.nodes = shape_.nodes;
  STOKER_TRY_STATUS(feed(seen));
  wire::GenerationStarted started;
  started.parent = generation_;
  generation_ = generation_.next();
  attempt_ = Attempt{};
  started.generation = generation_;
  started.iteration = from;
  started.token = seen.token;
  started.job = job_;
  started.order = OrderNumber{1};
  started.nodes = shape_.nodes;
  STOKER_TRY_STATUS(say(std::move(started)));
  return start_attempt(from);
}

Status ReplayRun::start_attempt(Iteration from) {
  attempt_ = attempt_.next();
  folder_.emplace(generation_, watch::digest_interval(policy_.hang.floor));
  beat_ = {};
  beat_.attempt = attempt_;
  beat_.ranks = shape_.ranks;
  beat_.iteration_min = beat_.iteration_max = from;
  progress_at_ = phase_since_ = world_.clock.now();
  acted_ = over_ = false;
  wire::AttemptStarted started;
  started.attempt = attempt_;
  started.nodes = shape_.nodes;
  started.world_size = shape_.ranks;
  started.iteration = from;
  return say(std::move(started));
}

// The logs go on: the run is put where they are.
Status ReplayRun::rejoin(Iteration from) {
  const core::RunState& now = run();
  const auto* recovering = std::get_if<core::training::Recovering>(&now.training);
  const std::string_view state = core::state_name(now.training);
  if (is_running(state) ||
      (recovering != nullptr && recovering->rung == core::training::Rung::InAllocation))
    return start_attempt(from);
  core::JobSeen ended;
  ended.token = world_.scheduler.token_of(job_.job);
  ended.job = job_;
  ended.state = core::JobState::Cancelled;
  ended.cancelled_by_us = true;
  STOKER_TRY_STATUS(feed(std::move(ended)));
  if (state == "held" || state == "stopped" || state == "finished") {
    core::OperatorAsked asked;
    asked.verb = "resume";
    asked.by = "the log";
    asked.reason = "the log goes on";
    asked.via = "socket";
    STOKER_TRY_STATUS(feed(std::move(asked)));
  }
  return start_generation(from);
}

wire::Beat ReplayRun::beat_now() {
  wire::Beat beat = beat_;
  beat.iteration_ms = {};
  beat.losses = {};
  beat.phase_age_ms = milliseconds(world_.clock.now() - phase_since_);
  beat.progress_age_ms = beat.newest_progress_age_ms =
      milliseconds(world_.clock.now() - progress_at_);
  return beat;
}

std::vector<core::Input> ReplayRun::digests() {
  core::Digest digest{generation_, beat_now(), {}, {}};
  if (const auto pending = folder_->flush()) {
    digest.iteration_ms = pending->iteration_ms;
    digest.losses = pending->losses;
  }
  std::vector<core::Input> inputs;
  inputs.push_back({policy_.run, std::move(digest), {}});
  return inputs;
}

Status ReplayRun::advance(std::int64_t ms) {
  const Instant at = Instant{} + std::chrono::milliseconds(std::max(ms, begin_ms_) - begin_ms_);
  while (!acted_ && !over_) {
    const auto wake = world_.engine().wake_at();
    if (!wake || *wake > at) break;
    STOKER_TRY_STATUS(world_.advance_to(*wake, [this] { return digests(); }));
  }
  world_.clock.move_to(at);
  return ok();
}

Status ReplayRun::enter(wire::Phase phase) {
  const bool edge = beat_.phase != phase;
  progress_at_ = world_.clock.now();
  if (!edge) return ok();
  beat_.phase = phase;
  phase_since_ = progress_at_;
  STOKER_TRY_STATUS(say(wire::PhaseEdge{attempt_, phase, beat_.iteration_max}));
  if (const auto digest = folder_->beat(beat_now(), world_.clock.now())) return feed(*digest);
  return ok();
}

Status ReplayRun::iteration(const diagnose::IterationMetrics& m, bool restarted) {
  const Iteration number(*m.iteration);
  if (acted_ || over_ || restarted) {
    settle(restarted || over_ ? "restarted" : "went_on", start_took_.value_or(Duration{}));
    STOKER_TRY_STATUS(rejoin(Iteration(number.value == 0 ? 0 : number.value - 1)));
  }
  const Instant now = world_.clock.now();
  if (!start_took_) start_took_ = now - Instant{};
  const bool iterated = beat_.phase == wire::Phase::Iteration && beat_.reporting > 0;
  const std::uint64_t before = beat_.iteration_max.value;
  if (number.value <= before && iterated) return ok();  // another rank's word of the same
  wire::Quantiles took;
  if (iterated) {
    took.count = number.value - before;
    const double guess =
        static_cast<double>(milliseconds(now - progress_at_)) / static_cast<double>(took.count);
    took.p50 = took.p99 = took.max = m.elapsed_ms.value_or(guess);
  }
  beat_.reporting = beat_.ranks;
  beat_.iteration_min = beat_.iteration_max = number;
  beat_.total = m.total.value_or(beat_.total);
  beat_.consumed_samples = m.consumed_samples.value_or(beat_.consumed_samples);
  beat_.consumed_tokens = m.consumed_tokens.value_or(beat_.consumed_tokens);
  beat_.loss = m.loss;
  beat_.learning_rate = m.lr.value_or(beat_.learning_rate);
  beat_.gradient_norm = m.grad_norm.value_or(beat_.gradient_norm);
  beat_.tflops = m.tflops.value_or(beat_.tflops);
  STOKER_TRY_STATUS(enter(wire::Phase::Iteration));
  wire::Beat beat = beat_now();
  beat.iteration_ms = took;
  wire::add(beat.losses,
            {number, m.loss, m.grad_norm, m.loss_scale, m.skipped.value_or(0), m.nan.value_or(0)});
  if (const auto digest = folder_->beat(beat, now)) STOKER_TRY_STATUS(feed(*digest));
  if (beat_.total != 0 && number.value >= beat_.total) over_ = true;
  return ok();
}

Status ReplayRun::phase(const diagnose::PhaseLine& line) {
  using diagnose::PhaseMark;
  if (acted_ || over_) return ok();
  beat_.reporting = beat_.ranks;
  const bool iterated = beat_.iteration_max.value > 0;
  switch (line.mark) {
    case PhaseMark::LoadBegins: return iterated ? ok() : enter(wire::Phase::Load);
    case PhaseMark::EvaluationBegins: return enter(wire::Phase::Evaluation);
    case PhaseMark::SaveBegins: return enter(wire::Phase::Checkpoint);
    case PhaseMark::Leaves: over_ = true; return ok();
    case PhaseMark::SaveEnds:
      if (line.iteration && saved_ != line.iteration) {
        saved_ = line.iteration;
        wire::CheckpointSaved saved;
        saved.iteration = Iteration(*line.iteration);
        saved.checkpoint = wire::checkpoint_name(saved.iteration, generation_);
        if (beat_.phase == wire::Phase::Checkpoint)
          saved.seconds = to_seconds(world_.clock.now() - phase_since_);
        STOKER_TRY_STATUS(say(std::move(saved)));
      }
      [[fallthrough]];
    case PhaseMark::LoadEnds:
    case PhaseMark::EvaluationEnds: break;
  }
  return enter(iterated ? wire::Phase::Iteration : wire::Phase::Startup);
}

Status ReplayRun::process_ends(const diagnose::Diagnosis& d) {
  if (const auto end = job_end(d.failure_class)) {
    core::JobSeen seen;
    seen.token = world_.scheduler.token_of(job_.job);
    seen.job = job_;
    seen.state = *end;
    seen.nodes = shape_.nodes;
    return feed(std::move(seen));
  }
  wire::RankExited exited;
  exited.attempt = attempt_;
  exited.node = d.node.empty() ? shape_.nodes.front() : NodeName(d.node);
  exited.rank = Rank{d.rank.value_or(0)};
  exited.code = 1;
  return say(std::move(exited));
}

// Lines may name any number of nodes, and each costs the decider something at every event: those
// that come late accuse no node, as names that are unknown.
Status ReplayRun::diagnosed(const diagnose::Diagnosis& d, bool goes_on) {
  const auto& known = world_.state().ledger.nodes;
  for (const auto* named : {&d.nodes, &d.exclude})
    for (const std::string& node : *named)
      if (known.size() < shape_.nodes.size() + kMostNamed && !known.contains(NodeName(node)))
        STOKER_TRY_STATUS(feed(core::NodeSeen{NodeName(node), true, "IDLE", ""}, true));
  STOKER_TRY_STATUS(feed(diagnose::as_event<core::Diagnosed>(d, generation_, attempt_)));
  if (!d.fatal || d.confidence < kSure || goes_on || acted_ || over_) return ok();
  return leaves_ranks_alive(d.failure_class) ? ok() : process_ends(d);
}

// What the logs show after the first decision that would have interrupted the training.
void ReplayRun::settle(const std::string& what, Duration start) {
  const WallTime now = world_.clock.wall();
  for (Detection& detection : detections_) {
    if (!detection.acted || !detection.log.empty()) continue;
    detection.log = what;
    detection.until = now;
    if (what == "went_on") continue;
    detection.saved_s = std::max(0.0, to_seconds(now - detection.at - start));
  }
}

Status ReplayRun::finish() {
  settle("ended", Duration{});
  return ok();
}

}  // namespace stoker::cli
