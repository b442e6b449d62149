// Histogram: bucket index = 8 x bit width of the microseconds + the three bits below the top one.
#include "core/signals/phase_durations.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace stoker::core {
namespace {

constexpr std::uint64_t kFadeAt = 4096;  // observations kept before all counts are halved

std::uint32_t bucket_of(std::uint64_t us) {
  if (us < 8) return static_cast<std::uint32_t>(us);
  const auto width = static_cast<std::uint32_t>(std::bit_width(us));
  return 8 * (width - 3) + static_cast<std::uint32_t>((us >> (width - 4)) & 7u);
}

std::uint64_t upper_bound_us(std::uint32_t bucket) {
  if (bucket < 8) return bucket;
  const std::uint32_t shift = bucket / 8 - 1;
  return ((8ull + bucket % 8 + 1) << shift) - 1;
}

std::optional<Duration> from_ms(double ms) {
  if (!std::isfinite(ms) || ms < 0 || ms > 1e12) return std::nullopt;
  return Duration(static_cast<std::int64_t>(ms * 1e6));
}

}  // namespace

void Histogram::add(Duration value, std::uint64_t times) {
  if (value < 0ns || times == 0) return;
  buckets_[bucket_of(static_cast<std::uint64_t>(value.count() / 1000))] += times;
  if (count() >= kFadeAt) fade();
}

void Histogram::add(const wire::Quantiles& quantiles) {
  const auto p50 = from_ms(quantiles.p50);
  const auto p99 = from_ms(quantiles.p99);
  const auto max = from_ms(quantiles.max);
  if (quantiles.count == 0 || !p50 || !p99 || !max) return;
  const std::uint64_t count = std::min<std::uint64_t>(quantiles.count, kFadeAt / 4);
  const std::uint64_t tail = count / 100;
  add(*max);
  add(*p99, tail);
  if (count > tail + 1) add(*p50, count - tail - 1);
}

std::uint64_t Histogram::count() const {
  std::uint64_t total = 0;
  for (const auto& [bucket, n] : buckets_) total += n;
  return total;
}

std::optional<Duration> Histogram::quantile(std::uint32_t per_mille) const {
  const std::uint64_t total = count();
  if (total == 0) return std::nullopt;
  const std::uint64_t wanted = std::max<std::uint64_t>(1, (total * per_mille + 999) / 1000);
  std::uint64_t seen = 0;
  for (const auto& [bucket, n] : buckets_) {
    seen += n;
    if (seen >= wanted) return Duration(static_cast<std::int64_t>(upper_bound_us(bucket)) * 1000);
  }
  return std::nullopt;
}

void Histogram::fade() {
  for (auto it = buckets_.begin(); it != buckets_.end();) {
    it->second /= 2;
    it = it->second == 0 ? buckets_.erase(it) : std::next(it);
  }
}

}  // namespace stoker::core
