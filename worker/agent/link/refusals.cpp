#include "worker/agent/link/refusals.hpp"

#include <fmt/format.h>

namespace stoker::agent {

void Refusals::add(const std::string& why, const std::string& peer, Instant now) {
  if (untold_.empty()) untold_since_ = now;
  ++untold_[why];
  newest_peer_ = peer;
  if (now - window_began_ > kFloodWindow) {
    window_began_ = now;
    in_window_ = 0;
  }
  if (++in_window_ >= kFlood) flood_until_ = now + kFloodWindow;
}

std::optional<std::string> Refusals::take_notice(Instant now) {
  if (untold_.empty() || (told_at_ && now - *told_at_ < kNoticeEvery)) return std::nullopt;
  std::uint64_t count = 0;
  std::string reasons;
  for (const auto& [why, n] : untold_) {
    count += n;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : ", ", why, n);
  }
  untold_.clear();
  told_at_ = now;
  return fmt::format(
      "connections refused at the agents' port: {} within {} s ({}), the newest from {}; the "
      "training goes on",
      count, std::chrono::ceil<std::chrono::seconds>(now - untold_since_).count(), reasons,
      newest_peer_);
}

}  // namespace stoker::agent
