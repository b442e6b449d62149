// A point of time at which the conversation on a socket ends, also while its owner reads. For
// libraries that check their own time limits only between two of their steps: who keeps a TLS
// hello readable without end (endless HelloRequests need no certificate) keeps OpenSSL 3.0 within
// one SSL_connect, and so libcurl from every transfer of that thread.
#pragma once

#include <cstdint>
#include <utility>

#include "common/time.hpp"

namespace stoker::os {

// Added to a library's own time limit, which comes first where it is checked.
inline constexpr Duration kOverdue = 1s;

class SocketDeadline {
 public:
  SocketDeadline() = default;
  // `after` from now a thread of the process shuts the socket down, in both directions: who reads
  // gets its end. Needs one descriptor; without one, and for no socket, nothing happens.
  SocketDeadline(int socket, Duration after);
  ~SocketDeadline() { lift(); }  // not any more
  void end_now();                // shuts the socket down at once, unless that was done
  SocketDeadline(SocketDeadline&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
  SocketDeadline& operator=(SocketDeadline&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  SocketDeadline(const SocketDeadline&) = delete;
  SocketDeadline& operator=(const SocketDeadline&) = delete;

 private:
  void lift();
  std::uint64_t id_ = 0;  // 0: no deadline
};

}  // namespace stoker::os
