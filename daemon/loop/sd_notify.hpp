// sd_notify(3) by hand: one datagram to $NOTIFY_SOCKET. Without systemd every call does nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/time.hpp"

namespace stoker::daemon {

class SystemdNotifier {
 public:
  SystemdNotifier();  // reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID
  explicit SystemdNotifier(std::string socket, std::optional<Duration> watchdog = {})
      : socket_(std::move(socket)), watchdog_(watchdog) {}

  void ready(std::string_view status) const;
  void status(std::string_view text) const;
  void watchdog() const;
  void reloading() const;
  void stopping() const;
  // Half of what systemd allows; empty when it keeps no watch.
  [[nodiscard]] std::optional<Duration> watchdog_interval() const;

 private:
  void send(const std::string& text) const;
  std::string socket_;
  std::optional<Duration> watchdog_;
};

}  // namespace stoker::daemon
