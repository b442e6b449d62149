// Thresholds stand here with their reason; they hold for language-model losses (nats, 1 to 12).
#include "diagnose/parse/loss_watch.hpp"

#include <algorithm>
#include <cmath>

#include "diagnose/input/line_scan.hpp"

namespace stoker::diagnose {

namespace {

constexpr std::size_t kWindow = LossWindow::kMost;
constexpr std::size_t kFewest = 2;           // before that nothing is a norm
constexpr double kSpikeRatio = 1.3;          // above the median; seen: 1.38 (104B) to 2.2 (176B)
constexpr double kSpikeLeast = 0.5;          // and at least this much
constexpr double kNormLeap = 5;              // above the median; noise of a batch stays below it
constexpr std::size_t kLongestOnset = 10;    // iterations; what comes later has another cause
constexpr double kCollapse = 8;              // three halvings in a row without recovery
constexpr std::uint64_t kSearchUntil = 200;  // iterations: the loss scale is being found
constexpr std::uint64_t kRecovered = 3;      // finite losses after a NaN: it was one batch
constexpr std::size_t kKeptText = 2048;

std::optional<double> number_behind(std::string_view text, std::string_view key) {
  const auto at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  const auto number = scan_number(trim_left(text.substr(at + key.size())));
  if (!number || !std::isfinite(number->value)) return std::nullopt;
  return number->value;
}

}  // namespace

void LossWindow::add(double value) {
  if (size_ == 0) {
    oldest_ = 0;
    at_least_ = value;
  }
  at_least_ = std::min(at_least_, value);
  if (size_ < kMost) {
    ring_[size_++] = value;
    return;
  }
  ring_[oldest_] = value;
  oldest_ = oldest_ + 1 == kMost ? 0 : oldest_ + 1;
}

template <class Is>
bool LossWindow::median_is(Is is) {
  std::size_t held = 0;
  double least = ring_[0];
  for (std::size_t i = 0; i < size_; ++i) {
    held += is(ring_[i]) ? 1 : 0;
    least = std::min(least, ring_[i]);
  }
  at_least_ = least;  // a low one may have gone
  return held > size_ / 2;
}

void LossWatch::keep_first(std::optional<Place>& place, const Here& here) {
  if (place) return;
  std::string storage;
  place = Place{here.line, std::string(without_colours(here.text, storage).substr(0, kKeptText))};
}

Finding LossWatch::found(FailureClass c, Severity severity, double confidence, const Place& where,
                         std::uint64_t count) {
  Finding f;
  f.failure_class = c;
  f.severity = severity;
  f.confidence = confidence;
  f.line = where.line;
  f.last_line = where.line;
  f.text = where.text;
  f.count = count;
  return f;
}

void LossWatch::iteration(std::uint64_t line, std::string_view text, const StepNumbers& metrics) {
  const Here here{line, text};
  ++iterations_;
  if (metrics.iteration) {
    const bool restarted = *metrics.iteration < latest_iteration_ || latest_iteration_ == 0;
    if (restarted) losses_.clear(), norms_.clear();  // another run, or from a checkpoint
    latest_iteration_ = *metrics.iteration;
  }
  const bool says_scale = metrics.loss_scale.has_value();
  const bool skipped = metrics.skipped.value_or(0) > 0 || (says_scale && !metrics.loss);
  if (skipped && says_scale) {
    keep_first(skip_, here);
    ++skips_;
  }
  if (says_scale && *metrics.loss_scale > 0)
    watch_scale(here, *metrics.loss_scale, latest_iteration_ < kSearchUntil);
  const bool counts_nan = metrics.nan.value_or(0) > 0;
  if (!metrics.loss && !counts_nan) return;
  // Hugging Face's Trainer shows a NaN gradient as a loss of exactly 0.
  std::string storage;
  const bool hidden =
      metrics.loss == 0.0 &&
      without_colours(text, storage).find("'grad_norm': nan") != std::string_view::npos;
  if (counts_nan || hidden || !std::isfinite(*metrics.loss)) {
    if (skipped && !counts_nan) return;  // the step was thrown away with its loss
    keep_first(nan_, here);
    ++nans_;
    finite_since_nan_ = 0;
    return;
  }
  ++finite_since_nan_;
  if (metrics.grad_norm) watch_norm(here, *metrics.grad_norm);
  watch_spike(here, *metrics.loss);
}

// The last leap counts, as long as the norm stays up.
void LossWatch::watch_norm(const Here& here, double norm) {
  const bool high = norms_.size() >= kFewest && norm > kNormLeap * norms_.at_least() &&
                    norms_.median_is([norm](double usual) { return norm > kNormLeap * usual; });
  const bool leapt = high && norm > kNormLeap * last_norm_;
  last_norm_ = norm;
  if (leapt) {
    onset_.reset();
    keep_first(onset_, here);
    since_leap_ = 0;
    return;
  }
  if (high && ++since_leap_ < kLongestOnset) return;
  onset_.reset();
  if (high) norms_.clear();  // a new level
  if (std::isfinite(norm)) norms_.add(norm);
}

void LossWatch::watch_spike(const Here& here, double loss) {
  const auto stands_out = [loss](double usual) {
    return loss > kSpikeRatio * usual && loss - usual > kSpikeLeast;
  };
  if (losses_.size() >= kFewest && stands_out(losses_.at_least())) {
    if (losses_.median_is(stands_out)) {
      if (onset_ && !spike_) spike_ = onset_;
      keep_first(spike_, here);
      ++spikes_;
      if (++high_in_a_row_ < kWindow) return;  // a spike is no norm, a new level is
      losses_.clear();
    }
  }
  high_in_a_row_ = 0;
  losses_.add(loss);
}

void LossWatch::watch_scale(const Here& here, double scale, bool searching) {
  if (!searching) mid_training_ = true;
  if (last_scale_ > 0 && scale > last_scale_) {  // it grows again: the fall is over
    fall_.reset();
    steady_scale_ = 0;
  }
  if (last_scale_ > 0 && scale < last_scale_) {
    if (!fall_) {
      keep_first(fall_, here);
      steady_scale_ = last_scale_;
    }
    const bool too_low = mid_training_ || scale <= 1;  // below 1 nothing is being searched for
    if (too_low && steady_scale_ >= kCollapse * scale) collapsed_ = true;
  }
  last_scale_ = scale;
}

void LossWatch::overflow(std::uint64_t line, std::string_view text) {
  const Here here{line, text};
  keep_first(skip_, here);
  ++skips_;
  told_skip_ = true;
  // DeepSpeed; Apex; fairseq.
  auto to = number_behind(text, "reducing to ");
  if (!to) to = number_behind(text, "reducing loss scale to ");
  if (!to) to = number_behind(text, "setting loss scale to:");
  if (!to) return;
  auto from = number_behind(text, "Attempted loss scale:");
  if (!from) from = last_scale_ > 0 ? last_scale_ : 2 * *to;
  if (*to >= *from) {
    const bool at_bottom = *to <= 1;  // it falls no further, and still overflows
    if (at_bottom && last_scale_ == *to) {
      keep_first(fall_, here);
      collapsed_ = true;
    }
    if (at_bottom) last_scale_ = *to;
    return;
  }
  const bool searching = !mid_training_ && latest_iteration_ < kSearchUntil;
  if (last_scale_ == 0) last_scale_ = *from;
  // Lines of several ranks repeat each other; an iteration line may have had the new scale first.
  if (*to < last_scale_) watch_scale(here, *to, searching);
}

std::vector<Finding> LossWatch::finish() const {
  std::vector<Finding> all;
  if (nan_) {
    const bool passed = finite_since_nan_ >= kRecovered;
    all.push_back(found(FailureClass::LossNanInf, passed ? Severity::Warning : Severity::Fatal,
                        passed ? 0.6 : 0.9, *nan_, nans_));
  }
  if (collapsed_ && fall_)
    all.push_back(found(FailureClass::LossScaleCollapse, Severity::Warning, 0.85, *fall_, skips_));
  if (spike_)
    all.push_back(found(FailureClass::LossSpike, Severity::Warning, 0.8, *spike_, spikes_));
  // One skipped step now and then is how a dynamic loss scale works; the program may say it aloud.
  if (skip_ && !collapsed_ && (told_skip_ || skips_ > 1 || iterations_ <= 1))
    all.push_back(found(FailureClass::GradOverflowSkip, Severity::Warning, 0.85, *skip_, skips_));
  return all;
}

}  // namespace stoker::diagnose
