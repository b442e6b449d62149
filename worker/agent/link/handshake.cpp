// The handshake's three messages.
#include "worker/agent/link/handshake.hpp"

#include "worker/agent/link/seal.hpp"

namespace stoker::agent {
namespace {

SessionKeys keys_of(const std::string& secret, const std::string& hello, const std::string& nonce) {
  return {mac_of(secret, {"to lead", hello, nonce}), mac_of(secret, {"to follower", hello, nonce})};
}

}  // namespace

FollowerHandshake::FollowerHandshake(std::string secret, const Hello& hello)
    : secret_(std::move(secret)), hello_(to_json_text(hello)) {}

std::string FollowerHandshake::knock() const {
  return mac_of(secret_, {"knock", hello_}) + hello_;
}

Result<std::string> FollowerHandshake::take(const Frame& challenge) {
  if (challenge.kind != 'h' || challenge.content.size() != kMacBytes + kNonceBytes)
    return fail("what listens there is not the lead of this version");
  nonce_ = challenge.content.substr(kMacBytes);
  const std::string proof = mac_of(secret_, {"lead", hello_, nonce_});
  if (!same_mac(proof, std::string_view(challenge.content).substr(0, kMacBytes)))
    return fail("what listens there does not know the secret: it is not the lead");
  return mac_of(secret_, {"follower", hello_, nonce_});
}

SessionKeys FollowerHandshake::keys() const {
  return keys_of(secret_, hello_, nonce_);
}

LeadHandshake::LeadHandshake(std::string secret, std::string nonce, Instant began)
    : secret_(std::move(secret)), nonce_(std::move(nonce)), began_(began) {}

Result<std::string> LeadHandshake::take(const Frame& frame, Instant now) {
  if (late(now)) return fail("late");
  if (frame.kind != 'h') return fail("not of this protocol");
  if (!knocked()) return take_knock(frame.content);
  if (!same_mac(mac_of(secret_, {"follower", hello_text_, nonce_}), frame.content))
    return fail("wrong answer");
  return std::string();
}

Result<std::string> LeadHandshake::take_knock(std::string_view content) {
  if (content.size() <= kMacBytes) return fail("not of this protocol");
  const std::string_view hello = content.substr(kMacBytes);
  if (!same_mac(mac_of(secret_, {"knock", hello}), content.substr(0, kMacBytes)))
    return fail("wrong secret");
  auto parsed = from_json_text<Hello>(hello, "hello", {.bytes = kHelloLimit, .depth = 4});
  if (!parsed) return fail("not of this protocol");
  if (parsed->protocol != kProtocol || parsed->build != STOKER_VERSION)
    return fail("another version of stoker");
  hello_ = std::move(*parsed);
  hello_text_ = hello;
  return mac_of(secret_, {"lead", hello_text_, nonce_}) + nonce_;
}

SessionKeys LeadHandshake::keys() const {
  return keys_of(secret_, hello_text_, nonce_);
}

}  // namespace stoker::agent
