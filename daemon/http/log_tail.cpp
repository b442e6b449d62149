// Reads a regular file from its end.
#include "daemon/http/log_tail.hpp"

#include <algorithm>
#include <sys/stat.h>

#include "common/os/files.hpp"
#include "watch/tail_source.hpp"

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

// The newest regular file; what another user's link leads to, or cannot be opened, is no log.
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
      if ((!newest.empty() && !later) || !watch::open_regular(path)) continue;
      newest = path;
      newest_at = info.st_mtim;
    }
  return newest;
}

Result<std::string> read_end(const std::string& path) {
  STOKER_TRY(file, watch::open_regular(path));
  if (!file) return fail("there is no log any more", path);
  const auto size = static_cast<off_t>(file->size);
  const off_t from = std::max<off_t>(size - kLookBack, 0);
  STOKER_TRY(text, watch::read_at(file->fd.get(), static_cast<std::uint64_t>(from),
                                  static_cast<std::size_t>(size - from)));
  if (from > 0) text.erase(0, std::min(text.find('\n'), text.size() - 1) + 1);
  return std::move(text);
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
