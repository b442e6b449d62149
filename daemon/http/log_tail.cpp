// Reads a regular file from its end.
#include "daemon/http/log_tail.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"

namespace stoker::daemon {
namespace {

constexpr off_t kLookBack = 256 << 10;
constexpr std::size_t kLongestShown = 4096;

std::string newest_main_log(const std::string& directory) {
  std::string newest;
  if (const auto names = os::list_directory(directory))
    for (const std::string& name : *names)
      if (name.starts_with("gen-") && (name.size() > newest.size() || name > newest)) newest = name;
  const std::string path = directory + "/" + newest + "/main.log";
  return !newest.empty() && os::exists(path) ? path : "";
}

std::string newest_of(const std::vector<std::string>& patterns) {
  std::string newest;
  timespec newest_at{};
  for (const std::string& pattern : patterns)
    for (const std::string& path : os::matching_paths(pattern)) {
      struct stat info {};
      if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
      const bool later =
          info.st_mtim.tv_sec > newest_at.tv_sec ||
          (info.st_mtim.tv_sec == newest_at.tv_sec && info.st_mtim.tv_nsec >= newest_at.tv_nsec);
      if (!newest.empty() && !later) continue;
      newest = path;
      newest_at = info.st_mtim;
    }
  return newest;
}

Result<std::string> read_end(const std::string& path) {
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return fail(errno_error(fd ? EINVAL : errno, "cannot open", path));
  const off_t from = std::max<off_t>(info.st_size - kLookBack, 0);
  std::string text(static_cast<std::size_t>(info.st_size - from), '\0');
  const ssize_t got = ::pread(fd.get(), text.data(), text.size(), from);
  if (got < 0) return fail(errno_error(errno, "cannot read", path));
  text.resize(static_cast<std::size_t>(got));
  if (from > 0) text.erase(0, std::min(text.find('\n'), text.size() - 1) + 1);
  return text;
}

}  // namespace

Result<LogTail> read_log_tail(const std::string& directory,
                              const std::vector<std::string>& patterns, std::size_t most) {
  LogTail tail;
  tail.path = newest_main_log(directory);
  if (tail.path.empty()) tail.path = newest_of(patterns);
  if (tail.path.empty()) return fail("there is no log yet", directory);
  STOKER_TRY(text, read_end(tail.path));
  while (!text.empty() && tail.lines.size() < most) {
    if (text.back() == '\n') text.pop_back();
    const auto before = text.rfind('\n');
    const std::size_t start = before == std::string::npos ? 0 : before + 1;
    tail.lines.push_back(text.substr(start, kLongestShown));
    text.resize(start);
  }
  std::reverse(tail.lines.begin(), tail.lines.end());
  return tail;
}

}  // namespace stoker::daemon
