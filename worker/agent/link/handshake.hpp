// How a follower and the lead prove to each other that they know the secret of the generation,
// which never travels. Pure: bytes and times in, bytes out. All frames are of kind 'h':
//
//   follower → lead   knock      MAC("knock", hello) + hello      who it is, with a fresh nonce
//   lead → follower   challenge  MAC("lead", hello, nonce) + nonce   the lead is proven
//   follower → lead   answer     MAC("follower", hello, nonce)       the follower is proven
//
// From then on each frame is sealed with a key of its direction (seal.hpp). The lead answers
// nothing to who cannot knock, and reads no JSON of him.
#pragma once

#include <string>

#include "common/json.hpp"
#include "worker/agent/link/protocol.hpp"

namespace stoker::agent {

inline constexpr int kProtocol = 2;
inline constexpr std::size_t kHelloLimit = 4096;  // bytes of a frame before the sender is known
inline constexpr Duration kHelloTime = 5s;        // for the whole handshake
inline constexpr std::size_t kNonceBytes = 32;

struct Hello {
  int protocol = kProtocol;
  std::string build;
  NodeName node;
  std::string host, boot_id;
  std::int64_t pid = 0;
  std::string nonce;  // hexadecimal
  STOKER_FIELDS(Hello, protocol, build, node, host, boot_id, pid, nonce)
};

struct SessionKeys {
  std::string to_lead, to_follower;
};

class FollowerHandshake {
 public:
  FollowerHandshake(std::string secret, const Hello& hello);
  [[nodiscard]] std::string knock() const;           // content of the first frame
  Result<std::string> take(const Frame& challenge);  // -> content of the answer
  [[nodiscard]] SessionKeys keys() const;            // after take()

 private:
  std::string secret_, hello_, nonce_;
};

// Errors are of a fixed few words: why the other side is refused. After one the connection is over.
class LeadHandshake {
 public:
  LeadHandshake(std::string secret, std::string nonce, Instant began);
  // The content of the frame to send back; empty: the follower is known.
  Result<std::string> take(const Frame& frame, Instant now);
  [[nodiscard]] bool late(Instant now) const { return now - began_ > kHelloTime; }
  [[nodiscard]] bool knocked() const { return !hello_text_.empty(); }
  [[nodiscard]] const Hello& hello() const { return hello_; }  // after the knock
  [[nodiscard]] SessionKeys keys() const;                      // once it is known

 private:
  Result<std::string> take_knock(std::string_view content);

  std::string secret_, nonce_, hello_text_;
  Hello hello_;
  Instant began_;
};

}  // namespace stoker::agent
