// Folds journal rows into points, incidents and checkpoints.
#include "core/publish/history.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/json.hpp"
#include "core/recover/resumed.hpp"

namespace stoker::core {
namespace {

constexpr std::size_t kMostIncidents = 500, kMostLines = 30, kMostCheckpoints = 1000;
constexpr float kNotReported = std::numeric_limits<float>::quiet_NaN();
constexpr double kYear = 365.0 * 24 * 3600;  // a clock that jumped further proves nothing

Spread spread(double low, double mid, double high) {
  return {static_cast<float>(low), static_cast<float>(mid), static_cast<float>(high)};
}
Spread single(double value) {
  return spread(value, value, value);
}
Spread positive(double value) {
  return value > 0 ? single(value) : single(kNotReported);
}
Spread& of(HistoryPoint& point, Metric metric) {
  return point.values[static_cast<std::size_t>(metric)];
}

std::int64_t milliseconds(WallTime wall) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(wall.time_since_epoch()).count();
}

// fmin and fmax pass over what is not a number.
Spread join(const Spread& a, const Spread& b) {
  const bool first = std::isfinite(a.mid), second = std::isfinite(b.mid);
  const float mid = first && second ? (a.mid + b.mid) / 2 : first ? a.mid : b.mid;
  return {std::fmin(a.low, b.low), mid, std::fmax(a.high, b.high)};
}

bool is_over_state(const std::string& state) {
  return state == "finished" || state == "stopped" || state == "held" || state == "idle";
}

bool begins_trouble(const Decision& decision) {
  const std::string& to = decision.to;
  return to == "suspect" || to == "recovering" || to == "held" ||
         (to == "queued" && (decision.from == "training" || decision.from == "starting"));
}

const SendAlert* raised_alert(const Decision& decision) {
  for (const Action& action : decision.actions)
    if (const auto* alert = std::get_if<SendAlert>(&action); alert != nullptr && !alert->resolved)
      return alert;
  return nullptr;
}

HistoryIncident new_incident(const JournalRow& row, bool planned, std::uint64_t iteration) {
  HistoryIncident incident;
  const SendAlert* alert = raised_alert(row.decision);
  incident.kind = alert != nullptr ? alert->alert_kind : planned ? "planned" : "other";
  incident.title = alert != nullptr ? alert->summary
                                    : row.decision.reason.substr(0, row.decision.reason.find(';'));
  incident.planned = planned;
  incident.from = row.event.wall;
  incident.iteration = iteration;
  return incident;
}

}  // namespace

const char* unit_of(Metric metric) {
  switch (metric) {
    case Metric::StepTime: return "s";
    case Metric::SamplesPerSecond: return "samples/s";
    case Metric::Tflops: return "TFLOP/s";
    case Metric::Loss:
    case Metric::GradientNorm:
    case Metric::LearningRate:
    case Metric::Goodput: return "";
  }
  return "";
}

HistoryPoint fold_points(const HistoryPoint& a, const HistoryPoint& b) {
  HistoryPoint folded = b;
  for (std::size_t i = 0; i < kMetrics; ++i) folded.values[i] = join(a.values[i], b.values[i]);
  return folded;
}

History::History(RunName run, std::size_t most_points)
    : run_(std::move(run)), most_points_(std::max<std::size_t>(most_points, 4)) {}

void History::take(const JournalRow& row) {
  if (row.event.run != run_ || row.seq <= taken_) return;
  taken_ = row.seq;
  account_until(row);
  const Decision& decision = row.decision;
  if (decision.to == "starting" && decision.from != "starting" && decision.from != "suspect")
    loaded_ = 0;
  if (const auto* digest = std::get_if<Digest>(&row.event.body)) take_digest(row, *digest);
  if (const auto* said = std::get_if<AgentSaid>(&row.event.body)) take_agent(row, *said);
  take_decision(row);
  state_ = row.decision.to;
}

// Between two rows the state stood still: the time is the training's when its iterations were new.
void History::account_until(const JournalRow& row) {
  const double lasted = until_ ? std::clamp(to_seconds(row.event.at - *until_), 0.0, kYear) : 0.0;
  until_ = row.event.at;
  if (state_.empty() || is_over_state(state_)) return;
  whole_s_ += lasted;
  if (state_ == "training" && phase_ != wire::Phase::Checkpoint && iteration_ >= reached_)
    trained_s_ += lasted;
}

void History::take_digest(const JournalRow& row, const Digest& digest) {
  const wire::Beat& beat = digest.last;
  const wire::StepLosses& losses = digest.losses;
  const std::uint64_t iteration = beat.iteration_max.value;
  beat_ = beat;
  phase_ = beat.phase;
  if (loaded_ == 0 && row.decision.from == "starting" && row.decision.to == "training")
    loaded_ = resumed_at(digest).value;
  iteration_ = std::max(loaded_, iteration);
  reached_ = std::max(reached_, iteration_);
  const bool told = losses.count > 0 || digest.iteration_ms.count > 0;
  const std::uint64_t batch = iteration > samples_at_ && beat.consumed_samples > samples_
                                  ? (beat.consumed_samples - samples_) / (iteration - samples_at_)
                                  : 0;
  const bool first = samples_ == 0;
  samples_ = beat.consumed_samples;
  samples_at_ = iteration;
  if (!told) return;  // ages alone
  HistoryPoint point;
  point.wall_ms = milliseconds(row.event.wall);
  point.iteration = iteration;
  point.values.fill(single(kNotReported));
  if (losses.count > 0)
    of(point, Metric::Loss) = spread(losses.low, losses.mean, losses.high);
  else if (beat.loss)
    of(point, Metric::Loss) = single(*beat.loss);
  if (beat.gradient_norm > 0)
    of(point, Metric::GradientNorm) = spread(beat.gradient_norm, beat.gradient_norm,
                                             std::max(beat.gradient_norm, losses.gradient_norm));
  of(point, Metric::LearningRate) = positive(beat.learning_rate);
  of(point, Metric::Tflops) = positive(beat.tflops);
  if (const wire::Quantiles& ms = digest.iteration_ms; ms.count > 0 && ms.p50 > 0) {
    of(point, Metric::StepTime) = spread(ms.p50 / 1e3, ms.p50 / 1e3, ms.max / 1e3);
    const double samples = static_cast<double>(batch) * 1e3;
    if (batch > 0 && !first)
      of(point, Metric::SamplesPerSecond) =
          spread(samples / std::max(ms.max, ms.p50), samples / ms.p50, samples / ms.p50);
  }
  if (whole_s_ > 0) of(point, Metric::Goodput) = single(trained_s_ / whole_s_);
  add_point(point);
}

void History::add_point(const HistoryPoint& point) {
  points_.push_back(point);
  if (points_.size() < most_points_) return;
  const std::size_t half = points_.size() / 4;  // pairs of the older half
  for (std::size_t i = 0; i < half; ++i)
    points_[i] = fold_points(points_[2 * i], points_[2 * i + 1]);
  points_.erase(points_.begin() + static_cast<std::ptrdiff_t>(half),
                points_.begin() + static_cast<std::ptrdiff_t>(2 * half));
}

void History::take_agent(const JournalRow& row, const AgentSaid& said) {
  const wire::AgentBody& body = said.event.body;
  if (const auto* started = std::get_if<wire::AttemptStarted>(&body)) {
    loaded_ = iteration_ = started->iteration.value;
    samples_ = 0;
    ranks_ = {said.generation.value, started->attempt.value, started->world_size, {}};
    for (const NodeName& node : started->nodes) ranks_.nodes.push_back(node.text);
    beat_.reset();
  } else if (const auto* saved = std::get_if<wire::CheckpointSaved>(&body)) {
    add_checkpoint({saved->iteration.value, saved->checkpoint, "", saved->bytes, saved->seconds,
                    row.event.wall});
  } else if (const auto* deleted = std::get_if<wire::CheckpointsDeleted>(&body)) {
    for (const std::string& name : deleted->checkpoints) mark_checkpoint(name, "deleted");
  } else if (const auto* damaged = std::get_if<wire::DamagedCheckpoint>(&body)) {
    mark_checkpoint(damaged->checkpoint, "damaged: " + damaged->why);
  } else if (const auto* archived = std::get_if<wire::CheckpointArchived>(&body)) {
    mark_checkpoint(archived->checkpoint, "archived to " + archived->path);
  }
}

void History::add_checkpoint(HistoryCheckpoint checkpoint) {
  checkpoints_.push_back(std::move(checkpoint));
  if (checkpoints_.size() > kMostCheckpoints) checkpoints_.pop_front();
}

void History::mark_checkpoint(const std::string& name, const std::string& fate) {
  for (auto saved = checkpoints_.rbegin(); saved != checkpoints_.rend(); ++saved)
    if (saved->name == name) {
      saved->fate = fate;
      return;
    }
}

void History::take_decision(const JournalRow& row) {
  const Decision& decision = row.decision;
  const bool changed = decision.from != decision.to;
  const bool trouble = changed && begins_trouble(decision);
  const bool planned = changed && decision.to == "stopping";
  if (!open_ && (trouble || planned) && !decision.reason.empty()) {
    incidents_.push_back(new_incident(row, !trouble, std::max(reached_, iteration_)));
    if (incidents_.size() > kMostIncidents) incidents_.pop_front();
    open_ = true;
  }
  if (!open_) return;
  HistoryIncident& incident = incidents_.back();
  if (trouble && incident.planned) {
    incident.planned = false;
    incident.kind = new_incident(row, false, 0).kind;
  }
  const bool digest = std::holds_alternative<Digest>(row.event.body);
  if (!decision.reason.empty() && (changed || !digest) && incident.lines.size() < kMostLines)
    incident.lines.push_back({row.event.wall, decision.reason});
  if (!changed || (decision.to != "training" && !is_over_state(decision.to))) return;
  if (decision.to == "training" && incident.iteration > loaded_)
    incident.repeated = incident.iteration - loaded_;
  incident.to = row.event.wall;
  incident.ended_in = decision.to;
  open_ = false;
}

}  // namespace stoker::core
