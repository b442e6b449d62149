#include "daemon/socket/byte_pace.hpp"

#include <algorithm>
#include <unistd.h>

namespace stoker::daemon {
namespace {
constexpr double kBurst = 512 << 10, kEachSecond = 32 << 10, kOfLine = 512;
constexpr std::size_t kMostUsers = 1000;
}  // namespace

bool BytePace::takes(const Peer& peer, std::size_t bytes, Instant now) {
  if (peer.uid == 0 || peer.uid == ::geteuid()) return true;
  if (paces_.size() >= kMostUsers && !paces_.contains(peer.uid)) paces_.clear();
  Pace& pace = paces_.try_emplace(peer.uid, Pace{kBurst, now}).first->second;
  pace = {std::min(kBurst, pace.left + to_seconds(now - pace.at) * kEachSecond), now};
  const double cost = static_cast<double>(bytes) + kOfLine;
  if (pace.left < cost) return false;
  pace.left -= cost;
  return true;
}

}  // namespace stoker::daemon
