// Who connects to the page, and how many TLS handshakes it gets: a crowd of one peer must not take
// all of what others wait for.
#pragma once

#include <map>
#include <string>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "common/time.hpp"

namespace stoker::daemon {

// A user of this host, or an address.
struct PagePeer {
  std::string name;
  bool is_own = false;  // our own user or root, as the kernel says
};
// On loopback the kernel knows whose the other end is.
PagePeer peer_of(boost::asio::ip::tcp::socket& socket);
PagePeer peer_of(boost::asio::local::stream_protocol::socket& socket);

class HandshakeBudgets {
 public:
  struct Rates {  // a second
    double peer, all;
  };
  // False: the peer, or all of them together, have had theirs.
  bool spend(const PagePeer& peer, Instant now, const Rates& rates);

 private:
  // So many a second, spread over it; as many at once after a second without any.
  class Budget {
   public:
    bool spend(Instant now, double rate);

   private:
    Instant at_;
    double left_ = 0;
  };
  Budget all_;
  std::map<std::string, Budget> peers_;
};

}  // namespace stoker::daemon
