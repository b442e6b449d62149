// The system calls.
#include "watch/inotify.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <sys/inotify.h>
#include <unistd.h>

namespace stoker::watch {
namespace {

// Files beside those that are watched which stoker itself writes often: no reader waits for them.
bool is_noise(std::string_view name) {
  constexpr std::array<std::string_view, 5> kWritten{"main.log", "events.jsonl", "status.json",
                                                     "chronicle.md", "control.json"};
  return std::find(kWritten.begin(), kWritten.end(), name) != kWritten.end() ||
         name.find(".new.") != std::string_view::npos;  // os::replace_file's, before the rename
}

}  // namespace

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
  alignas(inotify_event) std::array<char, 4096> buffer{};
  while (fd_) {
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    for (std::size_t at = 0; at + sizeof(inotify_event) <= static_cast<std::size_t>(got);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      // The kernel pads the name with zero bytes; an event without a name is of a folder itself.
      const char* name = buffer.data() + at + sizeof event;
      any = any || !is_noise({name, ::strnlen(name, event.len)});
      at += sizeof event + event.len;
    }
  }
  return any;
}

}  // namespace stoker::watch
