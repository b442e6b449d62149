// Ends a TLS conversation that consists of handshake messages. OpenSSL takes them within one
// SSL_connect or SSL_read for as long as there are any (HelloRequests, which need no certificate;
// tickets and key updates after a hello), and so keeps libcurl from every transfer of its thread.
// A header alone: only programs that speak TLS link libssl.
#pragma once

#include <curl/curl.h>
#include <openssl/ssl.h>
#include <string_view>
#include <vector>

#include "common/os/socket_deadline.hpp"

namespace stoker::os {

class HelloLimit {
 public:
  // `sockets`: those of the transfer, which are shut down; they outlive the transfer.
  explicit HelloLimit(std::vector<SocketDeadline>& sockets) : sockets_(sockets) {}
  HelloLimit(const HelloLimit&) = delete;
  HelloLimit& operator=(const HelloLimit&) = delete;

  // Before the transfer begins. Where libcurl uses another library than OpenSSL, nothing happens.
  void guard(CURL* easy) {
    const char* library = curl_version_info(CURLVERSION_NOW)->ssl_version;
    if (library == nullptr || !std::string_view(library).starts_with("OpenSSL")) return;
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, &HelloLimit::watch);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, this);
  }

 private:
  // A hello with certificates of both sides, and tickets: a dozen.
  static constexpr int kMostMessages = 64;

  static CURLcode watch(CURL*, void* context, void* self) {
    SSL_CTX_set_msg_callback(static_cast<SSL_CTX*>(context), &HelloLimit::count);
    SSL_CTX_set_msg_callback_arg(static_cast<SSL_CTX*>(context), self);
    return CURLE_OK;
  }
  static void count(int written, int, int content, const void*, std::size_t, SSL*, void* target) {
    auto& self = *static_cast<HelloLimit*>(target);
    if (written != 0 || content != SSL3_RT_HANDSHAKE || ++self.messages_ != kMostMessages) return;
    for (SocketDeadline& socket : self.sockets_) socket.end_now();
  }

  std::vector<SocketDeadline>& sockets_;
  int messages_ = 0;
};

}  // namespace stoker::os
