#include "common/os/kernel_table.hpp"

#include <cerrno>
#include <fcntl.h>
#include <string>
#include <vector>

#include "common/os/fd.hpp"

namespace stoker::os {
namespace {

constexpr std::size_t kLongestLine = 64u << 10;

}  // namespace

bool read_table(const char* path, const std::function<bool(std::string_view line)>& each) {
  const Fd file(::open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY));
  std::vector<char> buffer(64u << 10);
  std::string line;
  bool too_long = false;
  while (file) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    std::string_view rest(buffer.data(), static_cast<std::size_t>(got));
    for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      line += rest.substr(0, end);
      if (!too_long && line.size() <= kLongestLine && !each(line)) return true;
      line.clear();
      too_long = false;
      rest.remove_prefix(end + 1);
    }
    line += rest;
    if (line.size() <= kLongestLine) continue;
    line.clear();
    too_long = true;
  }
  return false;
}

}  // namespace stoker::os
