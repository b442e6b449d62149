// The lead's port. A client is a stranger until the handshake is done: at most kStrangers
// of them, each for kHelloTime and kHelloLimit bytes, the oldest leaves for a new one, and they
// never take the last descriptors, which logs and children need.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "worker/agent/link/handshake.hpp"
#include "worker/agent/link/refusals.hpp"
#include "worker/agent/link/star.hpp"
#include "worker/agent/loop.hpp"

namespace stoker::agent {

class Door {
 public:
  struct Wiring {
    Loop& loop;
    std::function<bool(const NodeName&)> expects;  // is there such a follower?
    // A proven follower. The new owner of the link sets its own events.
    std::function<void(const Hello&, std::unique_ptr<Link>)> known;
    std::function<void(std::string)> notice;
  };
  Door(Wiring wiring, std::string secret);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  // Raises the limit of descriptors where so many followers would not leave enough.
  Status open(const std::string& address, std::size_t followers);
  [[nodiscard]] std::uint32_t port() const { return listener_.port; }
  // Many strangers were turned away a moment ago: a link may be lost without its node's fault.
  [[nodiscard]] bool flooded() const { return refusals_.flood(monotonic_now()); }

  static constexpr std::size_t kStrangers = 64;

 private:
  using Id = std::uint64_t;  // in the order of their coming
  struct Stranger {
    std::unique_ptr<Link> link;
    LeadHandshake handshake;
    std::string peer;
  };

  void on_ready();
  bool accept_one();
  void rest();
  void on_frame(Id id, const Frame& frame);
  void make_room();
  void refuse(Id id, const std::string& why);
  void sweep();

  Wiring wiring_;
  std::string secret_;
  Listener listener_;
  std::map<Id, Stranger> strangers_;
  Id next_ = 1;
  Refusals refusals_;
  Loop::Timer sweep_timer_ = 0, rest_timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace stoker::agent
