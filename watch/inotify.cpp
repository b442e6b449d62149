// The system calls.
#include "watch/inotify.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
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

std::string parent_of(const std::string& folder) {
  return folder.substr(0, folder.rfind('/'));
}

}  // namespace

Inotify::Inotify() : fd_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {}

bool Inotify::watch(const std::string& owner, const std::vector<std::string>& folders) {
  if (!fd_) return false;
  std::map<std::string, int>& mine = watched_[owner];
  for (auto at = mine.begin(); at != mine.end();) {
    if (std::find(folders.begin(), folders.end(), at->first) != folders.end()) {
      ++at;
      continue;
    }
    const int number = at->second;
    at = mine.erase(at);
    release(owner, number);
  }
  bool all = true;
  for (const auto& folder : folders) {
    if (mine.contains(folder)) continue;
    const int number = ::inotify_add_watch(
        fd_.get(), folder.c_str(),
        IN_CREATE | IN_MODIFY | IN_MOVED_TO | IN_MOVED_FROM | IN_CLOSE_WRITE | IN_ONLYDIR);
    if (number >= 0) {
      mine[folder] = number;
      owners_[number].insert(owner);
    }
    all = all && (number >= 0 || (errno == ENOENT && mine.contains(parent_of(folder))));
  }
  if (mine.empty()) watched_.erase(owner);
  return all;
}

// A folder under two names, or of two owners, has one number.
void Inotify::release(const std::string& owner, int number) {
  const auto& mine = watched_[owner];
  if (std::any_of(mine.begin(), mine.end(), [&](const auto& f) { return f.second == number; }))
    return;
  const auto owners = owners_.find(number);
  if (owners == owners_.end()) return;
  owners->second.erase(owner);
  if (!owners->second.empty()) return;
  owners_.erase(owners);
  ::inotify_rm_watch(fd_.get(), number);
}

void Inotify::note(int number, std::set<std::string>& owners) const {
  if (number < 0)  // the kernel had no room for all that happened
    for (const auto& [owner, folders] : watched_) owners.insert(owner);
  if (const auto found = owners_.find(number); found != owners_.end())
    owners.insert(found->second.begin(), found->second.end());
}

std::set<std::string> Inotify::drain() {
  std::set<std::string> owners;
  alignas(inotify_event) std::array<char, 4096> buffer{};
  while (fd_) {
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    for (std::size_t at = 0; at + sizeof(inotify_event) <= static_cast<std::size_t>(got);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      // The kernel pads the name with zero bytes; an event without a name is of a folder itself.
      const char* name = buffer.data() + at + sizeof event;
      if (!is_noise({name, ::strnlen(name, event.len)})) note(event.wd, owners);
      at += sizeof event + event.len;
    }
  }
  return owners;
}

}  // namespace stoker::watch
