// Message authentication (HMAC-SHA256) for the star: proofs of the handshake, and the seal of each
// frame after it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "worker/agent/link/protocol.hpp"

namespace stoker::agent {

inline constexpr std::size_t kMacBytes = 32;

// HMAC-SHA256 over the parts, each preceded by its length: no two lists of parts are the same text.
std::string mac_of(std::string_view key, std::initializer_list<std::string_view> parts);
// In constant time.
bool same_mac(std::string_view a, std::string_view b);

// One direction of a session. The MAC of a frame covers its number, kind and content: a frame that
// was changed, repeated, left out or reordered, or that comes from another session or direction,
// does not open.
class Seal {
 public:
  explicit Seal(std::string key) : key_(std::move(key)) {}
  std::string close(char kind, std::string_view content);  // the MAC that follows the content
  [[nodiscard]] bool open(Frame& frame);                   // takes the MAC off

 private:
  [[nodiscard]] std::string next(char kind, std::string_view content);

  std::string key_;
  std::uint64_t count_ = 0;
};

}  // namespace stoker::agent
