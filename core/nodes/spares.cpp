// A balance by the hour.
#include "core/nodes/spares.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace stoker::core {
namespace {

constexpr int kHorizon = 90 * 24;  // hours

double rate_per_hour(const NodeLedger& ledger, Instant now) {
  const auto& losses = ledger.losses;
  const bool full = losses.size() >= kLossesKept;
  const std::size_t count = full ? losses.size() - 1 : losses.size();
  if (count < 2) return 0;
  const Duration span = now - (full ? losses.front() : ledger.since);
  if (span < 1h) return 0;
  return static_cast<double>(count) / (to_seconds(span) / 3600);
}

}  // namespace

SpareForecast forecast_spares(const NodeLedger& ledger, std::uint32_t needed, Duration exclude_for,
                              Instant now) {
  SpareForecast f;
  f.known = known_nodes(ledger);
  f.needed = needed;
  std::vector<double> back;  // hours until an exclusion ends
  for (const auto& [name, entry] : ledger.nodes) {
    const bool excluded = entry.excluded_until && *entry.excluded_until > now;
    if (entry.usable && !excluded) continue;
    ++f.out;
    if (entry.usable) back.push_back(to_seconds(*entry.excluded_until - now) / 3600);
  }
  const std::uint32_t in = f.known - std::min(f.known, f.out);
  f.free = in - std::min(in, needed);
  const double rate = rate_per_hour(ledger, now);
  f.lost_per_day = rate * 24;
  if (in < needed) f.out_in = Duration{};
  if (rate <= 0 || in < needed) return f;
  std::sort(back.begin(), back.end());
  const double stay = to_seconds(exclude_for) / 3600;
  auto due = back.begin();
  double left = in;
  for (int hour = 1; hour <= kHorizon; ++hour) {
    left -= rate;
    if (hour > stay) left += rate;  // who went out that long ago
    for (; due != back.end() && *due <= hour; ++due) left += 1;
    if (left >= needed) continue;
    f.out_in = hour * Duration(1h);
    break;
  }
  return f;
}

std::string spares_text(std::optional<double> out_in_s) {
  if (!out_in_s) return "";
  if (*out_in_s <= 0) return "out of spares";
  return fmt::format("out of spares in {:.1f} days", *out_in_s / 86400);
}

}  // namespace stoker::core
