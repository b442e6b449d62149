#include "worker/train/run/standby.hpp"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "wire/environment.hpp"
#include "wire/standby.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kOrderLimit = 1u << 20;

}  // namespace

std::optional<int> standby_descriptor() {
  const char* text = std::getenv(wire::env::kStandby);
  if (text == nullptr) return std::nullopt;
  int fd = -1;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), fd);
  if (error != std::errc{} || *end != '\0' || fd < 0) return std::nullopt;
  return fd;
}

Result<StandbyOutcome> wait_for_order(int descriptor) {
  const os::Fd fd(descriptor);
  const std::string object = "standby descriptor";
  if (::write(fd.get(), &wire::kStandbyReady, 1) != 1)
    return fail(errno_error(errno, "cannot say that we are ready", object));
  std::string line;
  char buffer[4096];
  while (line.find('\n') == std::string::npos) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(errno_error(errno, "cannot read the order", object));
    if (n == 0) return StandbyOutcome::Dismissed;
    line.append(buffer, static_cast<std::size_t>(n));
    if (line.size() > kOrderLimit) return fail("the order is too long", object);
  }
  line.resize(line.find('\n'));
  STOKER_TRY(order, from_json_text<wire::StandbyOrder>(line, object));
  ::unsetenv(wire::env::kStandby);
  for (const auto& [name, value] : order.environment) ::setenv(name.c_str(), value.c_str(), 1);
  return StandbyOutcome::Ordered;
}

}  // namespace stoker::train
