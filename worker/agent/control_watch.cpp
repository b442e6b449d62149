// The control thread.
#include "worker/agent/control_watch.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <poll.h>
#include <set>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "common/os/fuse_mount.hpp"
#include "common/os/own_files.hpp"
#include "watch/switch_folder.hpp"
#include "worker/agent/aside.hpp"

namespace stoker::agent {
namespace {

constexpr int kPollMs = 200;
constexpr std::size_t kMostNotices = 10;  // of refused switch files, in a window
constexpr Duration kNoticeWindow = 1min;
constexpr std::size_t kMostRemembered = 1000;
constexpr const char* kTakenUp[] = {"kill", "stop", "save"};

// switch/ as it is now. It counts only as the owner's own folder; others may order by it only where
// its group may write.
class Switches {
 public:
  static Result<std::optional<Switches>> open(const std::string& run_directory) {
    const std::string path = run_directory + "/switch";
    Switches found;
    found.path_ = path;
    found.folder_.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!found.folder_ && errno == ENOENT) return std::optional<Switches>{};
    struct stat info {};
    if (!found.folder_ || ::fstat(found.folder_.get(), &info) != 0)
      return fail(errno_error(errno, "switch files refused", path));
    if (info.st_uid != ::geteuid() && info.st_uid != 0)
      return fail("switch files refused: the folder belongs to " + os::user_name_of(info.st_uid),
                  path);
    STOKER_TRY_STATUS(os::check_mount(found.folder_.get(), path));
    const mode_t as_made = S_IWGRP | S_ISGID;  // by stokerd, for a group
    const bool shared = (info.st_mode & as_made) == as_made;
    found.rights_ = {why_not(shared, info.st_gid), shared ? "of the folder" : ""};
    auto names = watch::switch_names(found.folder_.get());
    if (!names) return fail("switch files refused: the folder cannot be read", path);
    found.names_ = std::move(*names);
    return std::optional<Switches>(std::move(found));
  }

  // A refused KILL must not hide a good kill beside it.
  [[nodiscard]] Result<std::optional<SwitchSeen>> find(const std::string& verb) const {
    Result<std::optional<SwitchSeen>> found = std::optional<SwitchSeen>{};
    for (const std::string& name : names_) {
      if (watch::lower_case(name) != verb) continue;
      auto judged = judge(name, verb);
      if (judged && *judged) return judged;
      if (!judged) found = std::move(judged);
    }
    return found;
  }

 private:
  static std::function<std::string(uid_t, const std::string&)> why_not(bool shared, gid_t group) {
    return [shared, group](uid_t user, const std::string& name) -> std::string {
      if (user == 0 || user == ::geteuid() || (shared && watch::is_member(user, group))) return "";
      return "its owner " + name +
             (shared ? " is not of the folder's group"
                     : " is another user, and the folder has no group");
    };
  }

  [[nodiscard]] Result<std::optional<SwitchSeen>> judge(const std::string& name,
                                                        const std::string& verb) const {
    const auto refuse = [&](const Error& error) {
      return fail("switch file refused: " + error.what, path_ + "/" + name);
    };
    const auto file = watch::open_switch(folder_.get(), name, rights_);
    if (!file) return refuse(file.error());
    if (!*file) return std::optional<SwitchSeen>{};
    const auto body = watch::read_switch_body(**file, name);
    if (!body) return refuse(body.error());
    const struct stat& info = (*file)->about;
    return std::optional(SwitchSeen{
        verb, fmt::format("{}.{}.{}", info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec),
        (*file)->author, body->reason});
  }

  std::string path_;
  os::Fd folder_;
  watch::SwitchRights rights_;
  std::vector<std::string> names_;
};

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
  std::set<std::string> refused;  // what was reported
  std::size_t in_window = 0;      // since `window`
  Instant window{};

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

  // A member who changes a file all the time must not fill the journal.
  void tell_refusal(const std::string& text, Instant now) {
    if (refused.contains(text)) return;
    if (now - window >= kNoticeWindow) {
      window = now;
      in_window = 0;
    }
    if (in_window++ >= kMostNotices) return;
    if (refused.size() >= kMostRemembered) refused.clear();
    refused.insert(text);
    sink.notice(text);
  }

  void look_at_switches(Instant now) {
    const auto switches = Switches::open(run_directory);
    if (!switches) return tell_refusal(switches.error().message(), now);
    if (!*switches) return waiting.clear();
    for (const char* verb : kTakenUp) look_at_switch(verb, (*switches)->find(verb), now);
  }

  void look_at_switch(const std::string& verb, const Result<std::optional<SwitchSeen>>& seen,
                      Instant now) {
    if (!seen) return tell_refusal(seen.error().message(), now);
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
      look_at_switches(monotonic_now());
      pollfd p{hints.get(), POLLIN, 0};
      if (::poll(&p, 1, kPollMs) > 0) {
        char drop[4096];
        while (::read(hints.get(), drop, sizeof drop) > 0) continue;
      }
    }
  }
};

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

Result<std::optional<SwitchSeen>> read_switch(const std::string& run_directory,
                                              const std::string& verb) {
  STOKER_TRY(switches, Switches::open(run_directory));
  return switches ? switches->find(verb) : std::optional<SwitchSeen>{};
}

ControlWatch::ControlWatch(std::string run_directory, ControlSink sink)
    : stop_(std::make_shared<std::atomic<bool>>(false)) {
  run_aside([watcher = Watcher{
                 std::move(run_directory), std::move(sink), stop_, {}, {}, {}, {}}]() mutable {
    watcher.run();
  });
}

ControlWatch::~ControlWatch() {
  *stop_ = true;
}

}  // namespace stoker::agent
