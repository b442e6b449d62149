// What one request to a server may cost: how long its connections live, and how many messages their
// TLS may consist of. OpenSSL takes handshake messages within one SSL_connect or SSL_read for as
// long as there are any (HelloRequests, which need no certificate; tickets and key updates after a
// hello), and so keeps libcurl from every transfer of its thread; libcurl looks at its own time
// limits between two such steps only.
// A header alone: only programs that speak TLS link libssl.
#pragma once

#include <curl/curl.h>
#include <memory>
#include <openssl/ssl.h>
#include <string_view>
#include <vector>

#include "common/os/socket_deadline.hpp"

namespace stoker::os {

class ConversationLimit {
 public:
  // Before the transfer begins: it has connections of its own, and no other transfer uses them, for
  // the limits are of one. Messages are counted where libcurl uses OpenSSL.
  void guard(CURL* easy) {
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
    // HTTP/2 would share a connection with the other transfers to that server.
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
#if LIBCURL_VERSION_NUM >= 0x075700
    // A name server that does not answer: at the time limit its thread is left alone, not joined.
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
    const char* library = curl_version_info(CURLVERSION_NOW)->ssl_version;
    if (library == nullptr || !std::string_view(library).starts_with("OpenSSL")) return;
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, &ConversationLimit::watch);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, this);
  }

  // A socket of the transfer: it is shut down `after` from now, while anything uses it.
  void add(int socket, Duration after) {
    state_->sockets.emplace_back(socket, after);
  }

 private:
  // A hello with certificates of both sides, and tickets: a dozen.
  static constexpr int kMostMessages = 64;

  // The TLS of a connection has a share of it: it may outlive the transfer.
  struct State {
    std::vector<SocketDeadline> sockets;
    int messages = 0;
  };
  using Share = std::shared_ptr<State>;

  static int slot() {
    static const int index = SSL_CTX_get_ex_new_index(
        0, nullptr, nullptr, nullptr, [](void*, void* share, CRYPTO_EX_DATA*, int, long, void*) {
          delete static_cast<Share*>(share);  // NOLINT
        });
    return index;
  }
  static CURLcode watch(CURL*, void* tls, void* self) {
    auto* context = static_cast<SSL_CTX*>(tls);
    auto share = std::make_unique<Share>(static_cast<ConversationLimit*>(self)->state_);
    if (SSL_CTX_set_ex_data(context, slot(), share.get()) != 1) return CURLE_OUT_OF_MEMORY;
    SSL_CTX_set_msg_callback(context, &ConversationLimit::count);
    SSL_CTX_set_msg_callback_arg(context, share.release()->get());
    return CURLE_OK;
  }
  // OpenSSL's signature. NOLINTNEXTLINE(readability-function-size)
  static void count(int written, int, int content, const void*, std::size_t, SSL*, void* target) {
    auto& state = *static_cast<State*>(target);
    if (written != 0 || content != SSL3_RT_HANDSHAKE || ++state.messages != kMostMessages) return;
    for (SocketDeadline& socket : state.sockets) socket.end_now();
  }

  Share state_ = std::make_shared<State>();
};

}  // namespace stoker::os
