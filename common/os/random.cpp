#include "common/os/random.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <sys/random.h>

#include "common/check.hpp"

namespace stoker::os {

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t done = 0; done < count;) {
    const ssize_t n = ::getrandom(bytes.data() + done, count - done, 0);
    STOKER_CHECK(n > 0 || errno == EINTR, "getrandom");
    if (n > 0) done += static_cast<std::size_t>(n);
  }
  return bytes;
}

std::string random_hex(std::size_t bytes) {
  std::string text;
  for (const char byte : random_bytes(bytes))
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace stoker::os
