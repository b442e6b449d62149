// The system calls.
#include "watch/inotify.hpp"

#include <algorithm>
#include <array>
#include <sys/inotify.h>
#include <unistd.h>

namespace stoker::watch {

Inotify::Inotify() : fd_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {}

void Inotify::watch(const std::vector<std::string>& directories) {
  if (!fd_) return;
  for (auto at = watched_.begin(); at != watched_.end();) {
    if (std::find(directories.begin(), directories.end(), at->first) != directories.end()) {
      ++at;
      continue;
    }
    ::inotify_rm_watch(fd_.get(), at->second);
    at = watched_.erase(at);
  }
  for (const auto& directory : directories) {
    if (watched_.contains(directory)) continue;
    const int number = ::inotify_add_watch(
        fd_.get(), directory.c_str(),
        IN_CREATE | IN_MODIFY | IN_MOVED_TO | IN_MOVED_FROM | IN_CLOSE_WRITE | IN_ONLYDIR);
    if (number >= 0) watched_[directory] = number;
  }
}

bool Inotify::drain() {
  bool any = false;
  std::array<char, 4096> buffer{};
  while (fd_) {
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    any = true;
  }
  return any;
}

}  // namespace stoker::watch
