// The thresholds, with where they come from. BLOOM's spike (31,216-31,250) stood 100 times its
// noise high and was gone after 30 iterations; of the 80B model's people: what jumps at once
// recovers, what climbs for many iterations does not, and after three hours without a sign they
// went back.
#include "core/signals/loss.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "common/time.hpp"
#include "core/signals/robust.hpp"

namespace stoker::core::signals {
namespace {

constexpr std::size_t kToLearn = 16;   // readings; before that nothing is a norm
constexpr double kLeastNoise = 0.002;  // of the level: bf16 rounds to about that
constexpr double kJump = 8;            // times the noise, in one iteration
constexpr double kJumpLeast = 0.05;    // of the level
constexpr double kDrift = 6;           // times the noise, for kDriftReadings in a row
constexpr double kDriftLeast = 0.03;   // of the level
constexpr std::uint32_t kDriftReadings = 6;
constexpr double kCalm = 3;           // times the noise: within is calm again
constexpr std::size_t kCalmLast = 5;  // readings whose median must be calm
constexpr double kHigh = 4;
constexpr std::uint64_t kPatience = 500, kLeastPatience = 50;  // iterations
constexpr Duration kPatienceTime = 3h;
constexpr std::uint64_t kAlwaysEnough = 3000;  // iterations above, falling or not
constexpr std::uint64_t kRunaway = 60;         // iterations of rising
constexpr double kRunawayNoise = 20, kRunawayLeast = 0.15;
constexpr double kShift = 0.10;  // of the level: a flat rise below it is a shift
constexpr std::uint64_t kNotFinite = 3;
constexpr double kCollapse = 8;  // three halvings without one doubling
constexpr std::uint64_t kScaleSearch = 200;
constexpr std::uint64_t kSkippedInARow = 3;
constexpr std::uint64_t kNewLevel = 5000;  // iterations, flat after it was reported: the new level

struct LossNorm {
  double level = 0, noise = 0, high = 0, high_noise = 0, gradient = 0;
};

LossNorm loss_norm(const LossWatch& w) {
  LossNorm norm;
  norm.level = median(w.levels);
  const double least = kLeastNoise * magnitude(norm.level);
  norm.noise = std::max({noise_between_neighbours(w.levels), least, 1e-9});
  norm.high = median(w.highs);
  norm.high_noise = std::max({noise_of(w.highs), norm.noise, least});
  norm.gradient = median(w.gradients);
  return norm;
}

std::string change_text(double from, double to, double noise) {
  return fmt::format("{:.4g} -> {:.4g}, {:.0f} times the noise of {:.2g}", from, to,
                     (to - from) / noise, noise);
}

std::string gradient_text(const Spike& spike) {
  if (spike.gradient_norm <= 0) return "";
  return fmt::format(", gradient norm up to {:.4g}{}{}", spike.gradient_norm,
                     spike.gradients > 0 ? fmt::format(" (usually {:.3g})", spike.gradients) : "",
                     rise_text(spike.rise));
}

std::string span_text(const Spike& spike, const LossReading& r) {
  return fmt::format("{} iterations ({})", r.iteration.value - spike.onset.value + 1,
                     format_duration(r.at - spike.at));
}

void calm(LossWatch& w, const LossReading& r) {
  keep(w.levels, r.steps.mean, kCalmReadings);
  keep(w.highs, r.steps.high, kCalmReadings);
  if (r.steps.gradient_norm > 0) keep(w.gradients, r.steps.gradient_norm, kCalmReadings);
  if (w.levels.size() < kToLearn) return;
  const double level = median(w.levels);
  if (w.lowest == 0 || level < w.lowest) w.lowest = level;
}

void remember(LossWatch& w, const Spike& spike, Iteration end) {
  w.past.push_back({spike.onset, end, (spike.peak - spike.level) / spike.noise});
  if (w.past.size() > kPastSpikes) w.past.erase(w.past.begin());
}

// What is there now is the norm.
void rebase(LossWatch& w) {
  w.levels.clear();
  w.highs.clear();
  w.lowest = 0;
  w.raised = 0;
  w.raised_levels.clear();
  w.spike.reset();
  w.bad_from.reset();
}

std::vector<double> third(const std::vector<double>& values, std::size_t which) {
  const std::size_t n = values.size();
  return {values.begin() + static_cast<std::ptrdiff_t>(n * which / 3),
          values.begin() + static_cast<std::ptrdiff_t>(n * (which + 1) / 3)};
}

bool is_calm_again(const Spike& spike) {
  return spike.last.size() >= 3 && median(spike.last) < spike.level + kCalm * spike.noise &&
         spike.last.back() < spike.level + kHigh * spike.noise;
}

LossVerdict go_on(LossWatch& w, const LossReading& r) {
  Spike& spike = *w.spike;
  spike.newest = r.iteration;
  spike.gradient_norm = std::max(spike.gradient_norm, r.steps.gradient_norm);
  if (!spike.rise) spike.rise = w.norms.rise;
  if (r.steps.high > spike.peak) {
    spike.peak = r.steps.high;
    spike.peak_at = r.steps.high_at;
  }
  spike.since.add(r.steps.mean);
  keep(spike.last, r.steps.mean, kCalmLast);
  if (is_calm_again(spike)) {
    const std::string text = fmt::format(
        "the loss is back at {:.4g} after {}: its spike went {} at iteration {}{}", r.steps.mean,
        span_text(spike, r), change_text(spike.level, spike.peak, spike.noise), spike.peak_at.value,
        gradient_text(spike));
    remember(w, spike, r.iteration);
    w.spike.reset();
    w.bad_from.reset();
    w.raised = 0;
    w.raised_levels.clear();
    return {LossNews::SpikeRecovered, text};
  }
  if (spike.since.means.size() < 6) return {};
  const std::uint64_t iterations = r.iteration.value - spike.onset.value + 1;
  const double tail = median(third(spike.since.means, 2));
  const double middle = median(third(spike.since.means, 1));
  const bool falling = tail < middle - spike.noise;
  const bool rising = tail > middle + 2 * spike.noise;
  const double height = tail - spike.level;
  if (height <= kHigh * spike.noise) return {};
  if (r.steps.mean < spike.level + kHigh * spike.noise) return {};  // it may be coming back
  const bool patient =
      iterations >= kPatience || (r.at - spike.at >= kPatienceTime && iterations >= kLeastPatience);
  const bool small = patient && height < kShift * magnitude(spike.level);
  if (!falling && !rising && (small || (spike.diverged && iterations >= kNewLevel))) {
    const std::string text = fmt::format(
        "the loss stays at {:.4g} where it was {:.4g} ({} since iteration {}), flat: "
        "this is its level now",
        tail, spike.level, change_text(spike.level, tail, spike.noise), spike.onset.value);
    remember(w, spike, r.iteration);
    rebase(w);
    return {LossNews::Shifted, text};
  }
  const bool runaway =
      rising && iterations >= kRunaway &&
      height > std::max(kRunawayNoise * spike.noise, kRunawayLeast * magnitude(spike.level));
  if (spike.diverged || !((patient && !falling) || runaway || iterations >= kAlwaysEnough))
    return {};
  spike.diverged = true;
  w.bad_from = spike.onset;
  return {LossNews::Diverged,
          fmt::format("the loss diverges: {} for {} since iteration {}, {} and {} ({:.4g}, {:.4g} "
                      "a third of that time ago); peak {:.4g}{}, learning rate {:.3g}",
                      change_text(spike.level, tail, spike.noise), span_text(spike, r),
                      spike.onset.value, spike.sudden ? "up at once" : "climbing",
                      rising    ? "still rising"
                      : falling ? "falling too slowly"
                                : "not falling",
                      tail, middle, spike.peak, gradient_text(spike), r.learning_rate)};
}

LossVerdict begin(LossWatch& w, const LossReading& r, const LossNorm& norm, bool sudden) {
  Spike spike;
  spike.onset = sudden ? std::min(r.steps.high_at, r.iteration) : w.raised_from;
  spike.at = sudden ? r.at : w.raised_at;
  spike.newest = r.iteration;
  spike.level = sudden ? norm.level : w.lowest;
  spike.noise = norm.noise;
  spike.sudden = sudden;
  spike.peak = r.steps.high;
  spike.peak_at = r.steps.high_at;
  spike.gradients = norm.gradient;
  spike.gradient_norm = r.steps.gradient_norm;
  spike.rise = w.norms.rise;
  w.raised_levels.push_back(r.steps.mean);
  for (const double level : w.raised_levels) spike.since.add(level);
  spike.last = {r.steps.mean};
  w.raised = 0;
  w.raised_levels.clear();
  // Of many iterations one stood out: over before it was reported.
  const auto count = static_cast<double>(r.steps.count);
  const bool over =
      sudden && r.steps.count >= 8 &&
      (r.steps.mean * count - r.steps.high) / (count - 1) < norm.level + kHigh * norm.noise;
  const std::string text =
      fmt::format("the loss {} {} at iteration {}{}, learning rate {:.3g}",
                  sudden ? "jumps" : "climbs", change_text(spike.level, spike.peak, spike.noise),
                  spike.peak_at.value, gradient_text(spike), r.learning_rate);
  if (over) {
    remember(w, spike, r.iteration);
    return {LossNews::Blip, text + "; it is back"};
  }
  w.spike = spike;
  return {LossNews::SpikeBegan, text};
}

LossVerdict watch_level(LossWatch& w, const LossReading& r) {
  if (w.spike && r.iteration < w.spike->onset) w.spike.reset();  // the numbers went back
  if (w.spike) return go_on(w, r);
  if (w.levels.size() < kToLearn) return calm(w, r), LossVerdict{};
  const LossNorm norm = loss_norm(w);
  const double size = magnitude(norm.level);
  const bool jumps =
      r.steps.high > norm.high + std::max(kJump * norm.high_noise, kJumpLeast * size);
  // What climbs slowly drags the level along: it is held against the lowest that there was.
  const double drifted = w.lowest + std::max(kDrift * norm.noise, kDriftLeast * size);
  const bool high = r.steps.mean > drifted;
  if (high && w.raised++ == 0) {
    w.raised_from = r.iteration;
    w.raised_at = r.at;
  }
  const std::uint32_t raised = w.raised;
  if (jumps && raised < kDriftReadings) return begin(w, r, norm, true);
  if (high) {
    if (raised >= kDriftReadings) return begin(w, r, norm, false);
    w.raised_levels.push_back(r.steps.mean);
    return {};
  }
  w.raised = 0;
  w.raised_levels.clear();
  calm(w, r);
  return {};
}

// A skipped step with a loss scale is how the scale is found; only a loss that stays no number, or
// a scale that falls and falls, is news.
LossVerdict watch_finite(LossWatch& w, const LossReading& r) {
  const wire::StepLosses& s = r.steps;
  const bool searching = s.scale > 0 && s.skipped >= s.not_finite;
  if (s.count > 0) {
    const bool told = w.told_not_finite;
    const std::uint64_t row = w.not_finite + (searching ? 0 : s.not_finite);
    w.not_finite = 0;
    w.told_not_finite = false;
    if (told) w.bad_from.reset();
    if (told)
      return {LossNews::FiniteAgain, fmt::format("the loss is a number again ({:.4g}) at iteration "
                                                 "{}",
                                                 s.mean, r.iteration.value)};
    if (row > 0 && row < kNotFinite)
      return {LossNews::OneNotFinite,
              fmt::format("the loss was not a number in {} up to iteration {}, and is {:.4g} again",
                          row == 1 ? "one iteration" : fmt::format("{} iterations", row),
                          r.iteration.value, s.mean)};
    return {};
  }
  if (s.not_finite == 0 || searching) return {};
  w.not_finite += s.not_finite;
  if (w.told_not_finite || w.not_finite < kNotFinite) return {};
  w.told_not_finite = true;
  w.bad_from = Iteration(r.iteration.value - std::min(r.iteration.value, w.not_finite - 1));
  return {LossNews::NotFinite,
          fmt::format("the loss is not a number (NaN or Inf) for {} iterations up to {}{}",
                      w.not_finite, r.iteration.value,
                      w.levels.empty() ? "" : fmt::format(", it was {:.4g}", median(w.levels))) +
              (w.norms.rise ? "; of the gradient norms" + rise_text(w.norms.rise) : "")};
}

LossVerdict watch_scale(LossWatch& w, const LossReading& r) {
  const double scale = r.steps.scale;
  w.seen += r.steps.count + r.steps.not_finite + r.steps.skipped;
  w.skipped = r.steps.count > 0 && r.steps.skipped == 0 ? 0 : w.skipped + r.steps.skipped;
  if (scale <= 0) return {};
  const double before = w.scale;
  w.scale = scale;
  if (scale >= w.steady_scale || (scale == before && w.skipped == 0)) w.scale_held = r.iteration;
  if (before == 0 || scale > before) {
    const bool told = w.told_scale;
    w.steady_scale = scale;
    w.told_scale = false;
    if (w.scale_gone) w.bad_from.reset();
    w.scale_gone = false;
    if (told)
      return {LossNews::ScaleRecovered, fmt::format("the loss scale grows again, to {}", scale)};
    return {};
  }
  const bool search = w.seen < kScaleSearch && scale > 1;
  if (search) w.steady_scale = scale;
  // Some programs step well with less than 1; who skips there has nothing left to halve.
  const bool gone = scale <= 1 && w.skipped >= kSkippedInARow && !w.scale_gone;
  if ((w.told_scale && !gone) || search || scale * kCollapse > w.steady_scale) return {};
  w.told_scale = true;
  w.scale_gone = gone;
  if (gone) w.bad_from = w.scale_held.next();
  return {
      LossNews::ScaleCollapsed,
      fmt::format("the loss scale collapses: {} -> {} without growing once, {} steps skipped in "
                  "a row, at iteration {}",
                  w.steady_scale, scale, w.skipped, r.iteration.value)};
}

}  // namespace

LossVerdict watch_loss(LossWatch& w, const LossReading& r) {
  watch_norms(w.norms, r.steps.groups, r.iteration);
  const LossVerdict scale = watch_scale(w, r);
  const LossVerdict finite = watch_finite(w, r);
  LossVerdict level;
  if (r.steps.count > 0) level = watch_level(w, r);
  if (finite.news != LossNews::Nothing) return finite;
  return level.news != LossNews::Nothing ? level : scale;
}

void forget_after(LossWatch& w, Iteration iteration) {
  if (w.spike && w.spike->onset > iteration) w.spike.reset();
  forget_after(w.norms, iteration);
  w.levels.clear();  // an earlier loss is a higher one: that would look like a jump
  w.highs.clear();
  w.lowest = 0;
  w.raised = 0;
  w.raised_levels.clear();
  w.not_finite = 0;
  w.told_not_finite = false;
  if (w.bad_from && *w.bad_from > iteration) w.bad_from.reset();
  w.scale = w.steady_scale = 0;
  w.skipped = w.seen = 0;
  w.told_scale = w.scale_gone = false;
}

void go_on_from(LossWatch& w, Iteration iteration, const std::vector<double>& before) {
  // Of a reading of many iterations the highest stands above its mean.
  const double above = w.levels.empty() ? 0 : std::max(0.0, median(w.highs) - median(w.levels));
  forget_after(w, iteration);
  if (before.size() < kToLearn) return;
  for (const double loss : before) {
    keep(w.levels, loss, kCalmReadings);
    keep(w.highs, loss + above, kCalmReadings);
  }
  w.lowest = median(w.levels);
}

}  // namespace stoker::core::signals
