// sd_notify: a path, or "@name" for the abstract namespace.
#include "daemon/loop/sd_notify.hpp"

#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/os/fd.hpp"

namespace stoker::daemon {

SystemdNotifier::SystemdNotifier() {
  if (const char* socket = std::getenv("NOTIFY_SOCKET")) socket_ = socket;
  const char* usec = std::getenv("WATCHDOG_USEC");
  const char* pid = std::getenv("WATCHDOG_PID");
  const bool ours = pid == nullptr || std::strtol(pid, nullptr, 10) == ::getpid();
  if (usec != nullptr && ours)
    if (const long long value = std::strtoll(usec, nullptr, 10); value > 0)
      watchdog_ = std::chrono::microseconds(value);
}

void SystemdNotifier::send(const std::string& text) const {
  if (socket_.empty()) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_.front() == '@') address.sun_path[0] = '\0';
  const os::Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  if (fd)
    (void)::sendto(fd.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                   reinterpret_cast<const sockaddr*>(&address), size);
}

void SystemdNotifier::ready(std::string_view text) const {
  send(fmt::format("READY=1\nSTATUS={}\n", text));
}
void SystemdNotifier::status(std::string_view text) const {
  send(fmt::format("STATUS={}\n", text));
}
void SystemdNotifier::watchdog() const {
  send("WATCHDOG=1\n");
}
void SystemdNotifier::reloading() const {
  const auto usec =
      std::chrono::duration_cast<std::chrono::microseconds>(monotonic_now().time_since_epoch());
  send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}\n", usec.count()));
}
void SystemdNotifier::stopping() const {
  send("STOPPING=1\n");
}
std::optional<Duration> SystemdNotifier::watchdog_interval() const {
  if (!watchdog_) return std::nullopt;
  return *watchdog_ / 2;
}

}  // namespace stoker::daemon
