// The control thread.
#include "worker/agent/control_watch.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <map>
#include <poll.h>
#include <pwd.h>
#include <set>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"

namespace stoker::agent {
namespace {

constexpr int kPollMs = 200;
constexpr std::size_t kSwitchBytes = 64u << 10;
constexpr const char* kVerbs[] = {"kill", "stop", "save"};

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Members of the run directory's group, its owner and root may use the switches.
bool may_switch(uid_t uid, const struct stat& directory) {
  if (uid == 0 || uid == directory.st_uid) return true;
  const passwd* user = ::getpwuid(uid);
  if (user == nullptr) return false;
  gid_t groups[256];
  int count = 256;
  if (::getgrouplist(user->pw_name, user->pw_gid, groups, &count) < 0) return false;
  return std::find(groups, groups + count, directory.st_gid) != groups + count;
}

struct Waiting {
  std::string identity;
  Instant since;
  bool handled = false;
};

struct Watcher {
  std::string run_directory;
  ControlSink sink;
  std::shared_ptr<std::atomic<bool>> stop;
  std::optional<wire::Control> last;
  std::string last_error;
  std::map<std::string, Waiting> waiting;
  std::set<std::string> refused;

  void look_at_control() {
    const auto control = read_control(run_directory);
    if (!control) {
      if (last_error != control.error().message()) sink.notice(control.error().message());
      last_error = control.error().message();
      return;
    }
    last_error.clear();
    if (!*control || *control == last) return;
    last = *control;
    sink.control(**control);
  }

  void look_at_switch(const std::string& verb, Instant now) {
    const auto seen = read_switch(run_directory, verb);
    if (!seen) {
      if (refused.insert(seen.error().message()).second) sink.notice(seen.error().message());
      return;
    }
    if (!*seen) {
      waiting.erase(verb);
      return;
    }
    Waiting& entry = waiting[verb];
    if (entry.identity != (*seen)->identity) entry = {(*seen)->identity, now, false};
    const Duration patience = verb == "kill" ? kKillSwitchPatience : kSwitchPatience;
    if (entry.handled || now - entry.since < patience) return;
    entry.handled = true;
    sink.left(**seen);
  }

  void run() {
    const os::Fd hints(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    constexpr auto kMask = IN_MOVED_TO | IN_CREATE | IN_CLOSE_WRITE;
    ::inotify_add_watch(hints.get(), run_directory.c_str(), kMask);
    while (!*stop) {
      look_at_control();
      const Instant now = monotonic_now();
      for (const char* verb : kVerbs) look_at_switch(verb, now);
      pollfd p{hints.get(), POLLIN, 0};
      if (::poll(&p, 1, kPollMs) > 0) {
        char drop[4096];
        while (::read(hints.get(), drop, sizeof drop) > 0) continue;
      }
    }
  }
};

// One file of the folder, in any spelling.
Result<std::optional<SwitchSeen>> judge_switch(const std::string& run_directory,
                                               const std::string& path, const std::string& verb) {
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd && errno == ENOENT) return std::optional<SwitchSeen>{};
  if (!fd && errno != EACCES) return fail(errno_error(errno, "switch file refused", path));
  struct stat info {};
  struct stat directory {};
  const int got = fd ? ::fstat(fd.get(), &info) : ::lstat(path.c_str(), &info);
  if (got != 0 || ::stat(run_directory.c_str(), &directory) != 0)
    return fail(errno_error(errno, "switch file refused", path));
  if (!S_ISREG(info.st_mode)) return fail("switch file refused: not a regular file", path);
  if (info.st_size > static_cast<off_t>(kSwitchBytes))
    return fail(fmt::format("switch file refused: {} bytes", info.st_size), path);
  if (!may_switch(info.st_uid, directory))
    return fail(fmt::format("switch file refused: user {} is not of the run's group", info.st_uid),
                path);
  SwitchSeen seen{verb,
                  fmt::format("{}.{}.{}", info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec),
                  "", ""};
  char body[kSwitchBytes];
  const ssize_t n = fd ? ::read(fd.get(), body, sizeof body) : 0;
  if (n > 0) {
    const auto parsed = from_json_text<wire::SwitchBody>({body, static_cast<std::size_t>(n)}, path,
                                                         {.bytes = kSwitchBytes, .depth = 8});
    if (parsed) seen.by = parsed->by, seen.reason = parsed->reason;
  }
  const passwd* user = ::getpwuid(info.st_uid);
  if (seen.by.empty()) seen.by = user != nullptr ? user->pw_name : std::to_string(info.st_uid);
  return std::optional<SwitchSeen>(seen);
}

}  // namespace

Result<std::optional<wire::Control>> read_control(const std::string& run_directory) {
  const std::string path = run_directory + "/control.json";
  const auto text = os::read_own_file(run_directory, "control.json", 1u << 20);
  if (!text) {
    if (!os::exists(path)) return std::optional<wire::Control>{};
    return fail(text.error());
  }
  STOKER_TRY(control, from_json_text<wire::Control>(*text, path, {.bytes = 1u << 20, .depth = 16}));
  return std::optional<wire::Control>(control);
}

// A refused KILL must not hide a good kill beside it.
Result<std::optional<SwitchSeen>> read_switch(const std::string& run_directory,
                                              const std::string& verb) {
  const std::string folder = run_directory + "/switch";
  const auto names = os::list_directory(folder);
  Result<std::optional<SwitchSeen>> found = std::optional<SwitchSeen>{};
  for (const std::string& name : names.value_or(std::vector<std::string>{})) {
    if (lower(name) != verb) continue;
    auto judged = judge_switch(run_directory, folder + "/" + name, verb);
    if (judged && *judged) return judged;
    if (!judged) found = std::move(judged);
  }
  return found;
}

ControlWatch::ControlWatch(std::string run_directory, ControlSink sink)
    : stop_(std::make_shared<std::atomic<bool>>(false)) {
  std::thread([watcher = Watcher{
                   std::move(run_directory), std::move(sink), stop_, {}, {}, {}, {}}]() mutable {
    watcher.run();
  }).detach();
}

ControlWatch::~ControlWatch() {
  *stop_ = true;
}

}  // namespace stoker::agent
