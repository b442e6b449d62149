// LossWatch: is the loss well? Pure: readings in, news out. A reading is the losses of one or many
// iterations (wire/step_losses.hpp). What is normal is this run's own level and noise over its last
// calm readings. It distinguishes: a loss that is not a number, a spike that recovers, one that
// diverges, a level that has shifted a little and stays, and a loss scale that collapses.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "core/signals/norms.hpp"
#include "core/signals/robust.hpp"
#include "wire/step_losses.hpp"

namespace stoker::core::signals {

struct LossReading {
  Instant at;
  Iteration iteration;  // the newest that it holds
  wire::StepLosses steps;
  double learning_rate = 0;
};

struct Spike {
  Iteration onset, peak_at, newest;
  Instant at;
  double level = 0, noise = 0;  // before it
  double peak = 0;
  double gradients = 0, gradient_norm = 0;  // usual before it, largest since
  std::optional<Rise> rise;                 // the group of layers whose norm rose first
  bool sudden = false;                      // up at once, not climbing for many iterations
  bool diverged = false;                    // reported
  Curve since;                              // levels
  std::vector<double> last;                 // the newest of them
  STOKER_FIELDS(Spike, onset, peak_at, newest, at, level, noise, peak, gradients, gradient_norm,
                rise, sudden, diverged, since, last)
};

struct PastSpike {
  Iteration onset, end;
  double height = 0;  // in units of the noise
  STOKER_FIELDS(PastSpike, onset, end, height)
};

struct LossWatch {
  std::vector<double> levels, highs, gradients;  // of the last calm readings
  double lowest = 0;                             // level of this baseline; 0 = none yet
  std::uint32_t raised = 0;                      // readings in a row above what drifts
  Iteration raised_from;
  Instant raised_at;
  std::vector<double> raised_levels;
  std::optional<Spike> spike;
  std::vector<PastSpike> past;   // the last ones, oldest first
  std::uint64_t not_finite = 0;  // iterations in a row
  bool told_not_finite = false;
  std::optional<Iteration> bad_from;  // of a divergence, or of losses that are no numbers
  double scale = 0, steady_scale = 0;
  std::uint64_t skipped = 0;  // in a row
  std::uint64_t seen = 0;     // iterations of this attempt
  bool told_scale = false;
  bool scale_gone = false;  // it has fallen to 1 or below
  Iteration scale_held;     // the last one that it let step
  NormWatch norms;
  STOKER_FIELDS(LossWatch, levels, highs, gradients, lowest, raised, raised_from, raised_at,
                raised_levels, spike, past, not_finite, told_not_finite, bad_from, scale,
                steady_scale, skipped, seen, told_scale, scale_gone, scale_held, norms)
};

enum class LossNews {
  Nothing,
  Blip,  // one iteration stood out, the next were calm
  SpikeBegan,
  SpikeRecovered,
  Diverged,
  Shifted,  // higher, flat, and not by much: the new normal
  OneNotFinite,
  NotFinite,  // several in a row
  FiniteAgain,
  ScaleCollapsed,
  ScaleRecovered
};
struct LossVerdict {
  LossNews news = LossNews::Nothing;
  std::string evidence;  // one sentence with its numbers
};

LossVerdict watch_loss(LossWatch& watch, const LossReading& reading);
// The iterations after `iteration` are trained again: what is known of them is of another line.
void forget_after(LossWatch& watch, Iteration iteration);
// The same, where the recipe stays: `before` are the losses that were logged up to `iteration`,
// oldest first. The norm that they make goes on; too few: it is learned again.
void go_on_from(LossWatch& watch, Iteration iteration, const std::vector<double>& before);

inline constexpr std::size_t kCalmReadings = 64;
inline constexpr std::size_t kPastSpikes = 16;

}  // namespace stoker::core::signals
