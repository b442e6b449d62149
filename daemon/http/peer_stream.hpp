// PeerStream: the bytes of one peer of the page, through TLS or as they are; an AsyncReadStream and
// AsyncWriteStream of Boost.Beast.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/stream.hpp>

#include "daemon/http/tls.hpp"

namespace stoker::daemon {

class PeerStream {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using executor_type = Socket::executor_type;

  // `context`: null without TLS.
  PeerStream(Socket socket, std::shared_ptr<Tls::Context> context)
      : socket_(std::move(socket)), context_(std::move(context)) {
    if (context_) tls_.emplace(socket_, *context_);
  }

  executor_type get_executor() { return socket_.get_executor(); }
  Tls::Context* tls() { return context_.get(); }

  // `then(code)`: at once without TLS.
  template <class Then>
  void shake_hands(Then&& then) {
    if (!tls_) return then(boost::system::error_code());
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::forward<Then>(then));
  }
  // Says goodbye where the protocol has a message.
  template <class Then>
  void take_leave(Then&& then) {
    if (!tls_) return then(boost::system::error_code());
    tls_->async_shutdown(std::forward<Then>(then));
  }
  // Bytes that the kernel has received and this stream has not read.
  std::size_t unread_bytes() {
    boost::system::error_code ignored;
    return socket_.available(ignored);
  }
  void close() {
    boost::system::error_code ignored;
    socket_.shutdown(Socket::shutdown_both, ignored);
    socket_.close(ignored);
  }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) return tls_->async_read_some(buffers, std::forward<Handler>(handler));
    socket_.async_read_some(buffers, std::forward<Handler>(handler));
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) return tls_->async_write_some(buffers, std::forward<Handler>(handler));
    socket_.async_write_some(buffers, std::forward<Handler>(handler));
  }

 private:
  Socket socket_;
  std::shared_ptr<Tls::Context> context_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
};

}  // namespace stoker::daemon
