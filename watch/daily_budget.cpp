#include "watch/daily_budget.hpp"

#include <fmt/format.h>

namespace stoker::watch {
namespace {
constexpr Duration kDay = 24h;
constexpr std::size_t kMostUsers = 1000;
}  // namespace

// A clock that was set back begins a new one.
bool DailyBudget::is_over(const Day& day, WallTime wall) {
  return wall < day.since || wall - day.since >= kDay;
}

std::optional<std::string> DailyBudget::spend(uid_t user, const std::string& name, WallTime wall) {
  if (days_.size() >= kMostUsers)
    std::erase_if(days_, [wall](const auto& entry) { return is_over(entry.second, wall); });
  Day& day = days_.try_emplace(user, Day{wall, 0}).first->second;
  if (is_over(day, wall)) day = {wall, 0};
  if (day.used < most_) {
    ++day.used;
    return std::nullopt;
  }
  return fmt::format(
      "{} has given {} orders since {}, the most in 24 hours: the next one is taken from {} on",
      name, most_, format_rfc3339(day.since), format_rfc3339(day.since + kDay));
}

}  // namespace stoker::watch
