// Folding: the newest beat wins, iteration times are merged.
#include "watch/digest_folder.hpp"

#include <algorithm>
#include <charconv>

namespace stoker::watch {

namespace {
constexpr double kWorthNaming = 1.02;    // a rank that computes longer than most; less is noise
constexpr std::size_t kMostParts = 256;  // more beats than that without a digest: one is emitted

// The beat without what changes while nothing happens.
wire::Beat without_ages(wire::Beat beat) {
  beat.phase_age_ms = beat.progress_age_ms = beat.newest_progress_age_ms = 0;
  beat.oldest.clear();
  beat.next_age_ms = -1;
  beat.waiting = 0;
  beat.free_memory_bytes = beat.free_shm_bytes = 0;
  beat.iteration_ms = {};
  beat.losses = {};
  beat.slowest.reset();
  return beat;
}

// As many digits as a person reads; the rest would only fill the journal.
double six_digits(double value) {
  char text[32];
  const auto written =
      std::to_chars(text, text + sizeof text, value, std::chars_format::scientific, 5);
  double rounded = value;
  std::from_chars(text, written.ptr, rounded);
  return rounded;
}

std::int64_t milliseconds(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}
}  // namespace

Duration digest_interval(Duration hang_floor) {
  return std::clamp<Duration>(hang_floor / 2, 100ms, 30s);
}

wire::Quantiles merge_quantiles(const std::vector<wire::Quantiles>& parts) {
  wire::Quantiles merged;
  std::vector<std::pair<double, std::uint64_t>> weighted;  // duration, how many
  for (const auto& part : parts) {
    if (part.count == 0) continue;
    merged.count += part.count;
    merged.max = std::max(merged.max, part.max);
    if (part.count > 1) weighted.emplace_back(part.p50, part.count - 1);
    weighted.emplace_back(part.count > 1 ? part.max : part.p50, 1);
  }
  std::sort(weighted.begin(), weighted.end());
  const auto at_share = [&](std::uint64_t percent) {
    const std::uint64_t wanted = (merged.count * percent + 99) / 100;  // nearest rank
    std::uint64_t seen = 0;
    for (const auto& [value, count] : weighted)
      if ((seen += count) >= wanted) return value;
    return merged.max;
  };
  if (merged.count > 0) {
    merged.p50 = at_share(50);
    merged.p99 = at_share(99);
  }
  return merged;
}

std::optional<core::Digest> DigestFolder::beat(const wire::Beat& beat, Instant at) {
  if (state_.pending && state_.pending->attempt != beat.attempt)
    forget_pending();  // numbers of another attempt say nothing of this one
  if (beat.iteration_ms.count > 0) state_.parts.push_back(beat.iteration_ms);
  wire::merge(state_.losses, beat.losses);
  state_.pending = beat;
  state_.pending_at = at;
  if (!state_.told || is_edge(beat) || state_.parts.size() >= kMostParts) return emit();
  const bool due = at < state_.told_at || at - state_.told_at >= interval_;
  const bool numbers = state_.losses.count + state_.losses.not_finite > 0;
  const bool changed =
      !state_.parts.empty() || numbers || without_ages(beat) != without_ages(*state_.told);
  if (due && changed) return emit();
  return std::nullopt;
}

std::optional<core::Digest> DigestFolder::flush() {
  if (!state_.pending) return std::nullopt;
  return emit();
}

void DigestFolder::forget_pending() {
  state_.pending.reset();
  state_.parts.clear();
  state_.losses = {};
}

core::Digest DigestFolder::emit() {
  core::Digest digest;
  digest.generation = generation_;
  digest.last = *state_.pending;
  digest.iteration_ms = merge_quantiles(state_.parts);
  digest.losses = state_.losses;
  digest.last.losses = {};  // the digest has them all
  // In a healthy run the list of the slowest is noise that would fill the journal; no limit is
  // shorter than the hang floor, which is two intervals or more. Nor does anybody decide by memory.
  auto& oldest = digest.last.oldest;
  const std::int64_t worth_telling = milliseconds(interval_);
  while (!oldest.empty() && oldest.back().age_ms >= 0 && oldest.back().age_ms < worth_telling) {
    digest.last.next_age_ms = oldest.back().age_ms;
    oldest.pop_back();
  }
  if (oldest.empty()) {
    digest.last.next_age_ms = -1;
    digest.last.waiting = 0;
  }
  for (double* figure :
       {&digest.last.learning_rate, &digest.last.gradient_norm, &digest.last.tflops,
        &digest.iteration_ms.p50, &digest.iteration_ms.p99, &digest.iteration_ms.max,
        &digest.losses.mean, &digest.losses.low, &digest.losses.high, &digest.losses.gradient_norm})
    *figure = six_digits(*figure);
  if (auto& slowest = digest.last.slowest;
      slowest && slowest->ms < kWorthNaming * slowest->median_ms)
    slowest.reset();
  if (auto& slowest = digest.last.slowest) {
    slowest->ms = six_digits(slowest->ms);
    slowest->median_ms = six_digits(slowest->median_ms);
  }
  if (digest.last.loss) digest.last.loss = six_digits(*digest.last.loss);
  digest.last.free_memory_bytes = digest.last.free_shm_bytes = 0;
  state_.told = digest.last;
  state_.told_at = state_.pending_at;
  state_.pending.reset();
  state_.parts.clear();
  state_.losses = {};
  return digest;
}

bool DigestFolder::is_edge(const wire::Beat& beat) const {
  const wire::Beat& before = *state_.told;
  if (beat.attempt != before.attempt || beat.phase != before.phase || beat.ranks != before.ranks ||
      beat.checkpoint != before.checkpoint || beat.saves_answered != before.saves_answered ||
      beat.loss.has_value() != before.loss.has_value())
    return true;
  if (beat.total != 0 && beat.iteration_max.value >= beat.total &&
      before.iteration_max < beat.iteration_max)
    return true;  // the last one
  if (beat.reporting != before.reporting &&
      (beat.reporting < before.reporting || beat.reporting == beat.ranks))
    return true;
  // Progress again after a pause that somebody may already suspect.
  return before.progress_age_ms >= milliseconds(interval_) &&
         beat.iteration_min > before.iteration_min;
}

}  // namespace stoker::watch
