// See the header. All arithmetic in double, in the order of the source, so that the seeds' logs are
// met to the digit.
#include "recipe/lr_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace stoker::recipe {
namespace {

// The share of (max - min) that is left at `ratio` of the way from the warm-up's end to the decay's
// end.
double remaining_share(const LrSchedule& lr, std::uint64_t consumed) {
  const auto n = static_cast<double>(consumed - lr.warmup_samples);
  const double ratio = n / static_cast<double>(lr.decay_samples - lr.warmup_samples);
  switch (lr.style) {
    case LrStyle::Linear: return 1.0 - ratio;
    case LrStyle::Cosine: return 0.5 * (std::cos(std::numbers::pi * ratio) + 1.0);
    case LrStyle::WarmupStableDecay: {
      const std::uint64_t begin = lr.decay_samples - lr.wsd_decay_samples;
      if (consumed <= begin || lr.wsd_decay_samples == 0) return 1.0;
      const double part =
          static_cast<double>(consumed - begin) / static_cast<double>(lr.wsd_decay_samples);
      return 2.0 * std::pow(0.5, part) - 1.0;
    }
    case LrStyle::Constant:
    case LrStyle::InverseSquareRoot: break;
  }
  return 1.0;
}

}  // namespace

Status check_lr(const LrSchedule& lr) {
  if (!std::isfinite(lr.max) || lr.max <= 0) return fail("max must be above 0");
  if (!std::isfinite(lr.min) || lr.min < 0) return fail("min must not be negative");
  if (lr.min > lr.max) return fail("min is above max");
  if (!std::isfinite(lr.initial) || lr.initial < 0 || lr.initial > lr.max)
    return fail("initial must be between 0 and max");
  const bool decays = lr.style != LrStyle::Constant && lr.style != LrStyle::InverseSquareRoot;
  if (decays && lr.decay_samples <= lr.warmup_samples)
    return fail("decay_samples must be larger than warmup_samples");
  if (lr.style == LrStyle::WarmupStableDecay &&
      lr.wsd_decay_samples > lr.decay_samples - lr.warmup_samples)
    return fail("wsd_decay_samples does not fit between warmup_samples and decay_samples");
  return ok();
}

double lr_at(const LrSchedule& lr, std::uint64_t consumed) {
  if (lr.warmup_samples > 0 && consumed <= lr.warmup_samples)
    return lr.initial + (lr.max - lr.initial) * static_cast<double>(consumed) /
                            static_cast<double>(lr.warmup_samples);
  if (lr.style == LrStyle::Constant) return lr.max;
  if (lr.style == LrStyle::InverseSquareRoot) {
    if (lr.decay_samples > 0 && consumed > lr.decay_samples) return lr.min;
    const auto warmup = static_cast<double>(std::max<std::uint64_t>(lr.warmup_samples, 1));
    const auto n = static_cast<double>(std::max<std::uint64_t>(consumed, 1));
    return std::max(lr.min, lr.max * std::sqrt(warmup) / std::sqrt(n));
  }
  if (consumed > lr.decay_samples) return lr.min;
  return lr.min + remaining_share(lr, consumed) * (lr.max - lr.min);
}

}  // namespace stoker::recipe
