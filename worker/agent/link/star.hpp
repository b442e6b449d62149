// The star's links: framed, non-blocking TCP with a bounded queue of what is still to be sent. The
// lead listens and knows each follower by the node it proved to be; a follower has one link.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>

#include "worker/agent/link/handshake.hpp"
#include "worker/agent/link/protocol.hpp"
#include "worker/agent/link/seal.hpp"
#include "worker/agent/loop.hpp"

namespace stoker::agent {

// gen-*/agents/lead.json, mode 0600: where the lead listens, and the secret that opens its door.
struct LeadAddress {
  int version = 1;
  NodeName lead;
  std::string address;
  std::uint32_t port = 0;
  std::string secret;
  STOKER_FIELDS(LeadAddress, version, lead, address, port, secret)
};
std::string lead_address_path(const std::string& generation_directory);
// Only what our own user wrote counts (common/os/own_files.hpp): who else could put a file there
// would choose the lead that a follower obeys.
Result<LeadAddress> read_lead_address(const std::string& run_directory, Generation generation);

class Link {
 public:
  struct Broken {
    std::string why;
    bool foreign = false;  // what came in is no frame of this protocol
  };
  struct Events {
    std::function<void(const Frame&)> frame;
    std::function<void(const Broken&)> broken;  // once, last; may destroy the link later
  };
  struct Seals {
    Seal out, in;
  };
  Link(Loop& loop, os::Fd socket, Events events, std::size_t frame_limit = kFrameLimit);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Queues and sends as far as possible. Log frames are dropped (and counted) when much is queued.
  void send(char kind, std::string_view content);
  template <class Variant>
  void send_message(const Variant& message) {
    send('j', to_json_text(message));
  }
  void secure(Seals seals);            // the handshake is done: frames of kFrameLimit, sealed
  void replace_events(Events events);  // also inside a callback
  [[nodiscard]] Instant heard_at() const { return heard_at_; }
  [[nodiscard]] bool is_broken() const { return broken_; }
  [[nodiscard]] bool sent_all() const { return out_.size() == out_begin_; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  void on_ready(short events);
  void read_some();
  void write_some();
  void break_off(const Broken& broken);

  Loop& loop_;
  os::Fd socket_;
  std::shared_ptr<const Events> events_;
  std::optional<Seals> seals_;
  FrameReader reader_;
  std::string out_;
  std::size_t out_begin_ = 0;
  Instant heard_at_;
  bool broken_ = false;
  std::uint64_t dropped_ = 0;
};

// A listening socket on this address alone, or on all where this host does not have it (a
// container, say); `note` says so then. The port is free and the kernel's choice.
struct Listener {
  os::Fd socket;
  std::uint32_t port = 0;
  std::string note;
};
Result<Listener> listen_tcp(const std::string& address);
Result<os::Fd> accept_link(const os::Fd& listener);
// Both block at most `limit`.
Result<os::Fd> connect_tcp(const std::string& address, std::uint32_t port, Duration limit);
Result<SessionKeys> knock(const os::Fd& socket, FollowerHandshake handshake, Duration limit);

std::string random_secret();  // 64 hex digits

}  // namespace stoker::agent
