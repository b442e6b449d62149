// Connections that were turned away at the lead's port, counted: one notice a minute at most, and
// whether there are so many that a lost link says little about its node. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/time.hpp"

namespace stoker::agent {

class Refusals {
 public:
  // `why`: of a fixed few words. `peer`: the address of the other side.
  void add(const std::string& why, const std::string& peer, Instant now);
  // What is to be said now: at once after the first refusal, then once a minute while there are
  // more. Nothing: all is said, or a notice was given less than a minute ago.
  std::optional<std::string> take_notice(Instant now);
  // kFlood refusals within kFloodWindow, not longer than that ago.
  [[nodiscard]] bool flood(Instant now) const { return flood_until_ && now < *flood_until_; }

  static constexpr std::uint64_t kFlood = 64;
  static constexpr Duration kFloodWindow = 10s;
  static constexpr Duration kNoticeEvery = 60s;

 private:
  std::map<std::string, std::uint64_t> untold_;  // by reason
  std::string newest_peer_;
  Instant untold_since_{};
  std::optional<Instant> told_at_, flood_until_;
  Instant window_began_{};
  std::uint64_t in_window_ = 0;
};

}  // namespace stoker::agent
