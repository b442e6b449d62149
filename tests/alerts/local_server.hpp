// A little HTTP server on 127.0.0.1 that behaves as a test wants: answers, fails, refuses, hangs.
#pragma once

#include <atomic>
#include <doctest/doctest.h>
#include <mutex>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "common/os/fd.hpp"

namespace stoker::alerts::testing {

enum class Mood { Ok, Fail, Refuse, Redirect, Forbid, Busy, Hang };

class LocalServer {
 public:
  LocalServer() {
    ::setenv("no_proxy", "127.0.0.1", 1);
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);  // NOLINT
    REQUIRE(::bind(listener_.get(), generic, size) == 0);
    REQUIRE(::listen(listener_.get(), 64) == 0);
    REQUIRE(::getsockname(listener_.get(), generic, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~LocalServer() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  // Before this, connections are taken by the kernel and get no answer.
  void start() {
    thread_ = std::thread([this] { serve(); });
  }
  void set(Mood mood) { mood_ = mood; }
  [[nodiscard]] int descriptor() const { return listener_.get(); }  // for a server of one's own
  [[nodiscard]] std::string url() const {
    return "http://127.0.0.1:" + std::to_string(port_) + "/hook";
  }
  // Bodies that were answered with 200, in order.
  std::vector<std::string> taken() {
    const std::lock_guard lock(mutex_);
    return taken_;
  }
  [[nodiscard]] int asked() const { return asked_; }

 private:
  void serve() {
    std::vector<os::Fd> hanging;
    while (!stop_) {
      pollfd waiting{listener_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 10) <= 0) continue;
      os::Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const std::string body = read_body(client.get());
      if (body.empty()) continue;
      ++asked_;
      switch (mood_.load()) {
        case Mood::Ok: {
          const std::lock_guard lock(mutex_);
          taken_.push_back(body);
        }
          answer(client.get(), "200 OK", "");
          break;
        case Mood::Fail: answer(client.get(), "500 Internal Server Error", ""); break;
        case Mood::Refuse: answer(client.get(), "400 Bad Request", ""); break;
        case Mood::Redirect: answer(client.get(), "302 Found", "Location: /login\r\n"); break;
        case Mood::Forbid: answer(client.get(), "403 Forbidden", ""); break;
        case Mood::Busy: answer(client.get(), "429 Too Many Requests", "Retry-After: 1\r\n"); break;
        case Mood::Hang: hanging.push_back(std::move(client)); break;
      }
    }
  }
  static std::string read_body(int fd) {
    std::string text;
    while (true) {
      const auto head = text.find("\r\n\r\n");
      if (head != std::string::npos) {
        const auto length = text.find("Content-Length: ");
        const std::size_t wanted = std::stoul(text.substr(length + 16));
        if (text.size() >= head + 4 + wanted) return text.substr(head + 4);
      }
      pollfd waiting{fd, POLLIN, 0};
      char buffer[4096];  // NOLINT
      if (::poll(&waiting, 1, 1000) <= 0) return {};
      const ssize_t got = ::read(fd, buffer, sizeof buffer);
      if (got <= 0) return {};
      text.append(buffer, static_cast<std::size_t>(got));
    }
  }
  static void answer(int fd, const std::string& status, const std::string& headers) {
    const std::string text = "HTTP/1.1 " + status + "\r\nContent-Length: 2\r\n" + headers +
                             "Connection: close\r\n\r\nok";
    (void)!::write(fd, text.data(), text.size());
  }

  os::Fd listener_;
  int port_ = 0;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::atomic<Mood> mood_{Mood::Ok};
  std::atomic<int> asked_{0};
  std::mutex mutex_;
  std::vector<std::string> taken_;
};

}  // namespace stoker::alerts::testing
