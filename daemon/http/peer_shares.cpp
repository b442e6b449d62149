#include "daemon/http/peer_shares.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/os/socket_owners.hpp"

namespace stoker::daemon {
namespace {

constexpr std::size_t kMostPeers = 1000;  // remembered

PagePeer user_peer(unsigned user) {
  return {fmt::format("uid {}", user), user == 0 || user == ::geteuid()};
}

}  // namespace

PagePeer peer_of(boost::asio::ip::tcp::socket& socket) {
  boost::system::error_code code;
  const auto from = socket.remote_endpoint(code), here = socket.local_endpoint(code);
  if (code) return {"unknown"};
  if (!from.address().is_loopback()) return {from.address().to_string()};
  const auto users = os::holders_of({from.address().to_string(), from.port()},
                                    {here.address().to_string(), here.port()});
  return users.empty() ? PagePeer{"unknown"} : user_peer(users.front());
}

PagePeer peer_of(boost::asio::local::stream_protocol::socket& socket) {
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
    return {"unknown"};
  return user_peer(who.uid);
}

bool HandshakeBudgets::Budget::spend(Instant now, double rate) {
  left_ = std::min(rate, left_ + to_seconds(now - at_) * rate);
  at_ = now;
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

bool HandshakeBudgets::spend(const PagePeer& peer, Instant now, const Rates& rates) {
  if (peers_.size() >= kMostPeers) peers_.clear();
  return peers_[peer.name].spend(now, rates.peer) && all_.spend(now, rates.all);
}

}  // namespace stoker::daemon
