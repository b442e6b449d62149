// Opening the folder, judging what lies there.
#include "worker/agent/switch_look.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <functional>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/fuse_mount.hpp"
#include "common/os/own_files.hpp"
#include "watch/switch_folder.hpp"

namespace stoker::agent {
namespace {

constexpr const char* kTakenUp[] = {"kill", "stop", "save"};

bool is_owners(uid_t user) {
  return user == 0 || user == ::geteuid();
}

// Waits for the folder where a signal ends the wait: a look-up of a name that meets the folder's
// lock sleeps without that.
void wait_for_folder(int folder) {
  std::array<char, 4096> drop;
  [[maybe_unused]] const auto n = ::getdents64(folder, drop.data(), drop.size());
}

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
    if (!is_owners(info.st_uid))
      return fail("switch files refused: the folder belongs to " + os::user_name_of(info.st_uid),
                  path);
    STOKER_TRY_STATUS(os::check_mount(found.folder_.get(), path));
    const mode_t as_made = S_IWGRP | S_ISGID;  // by stokerd, for a group
    const bool shared = (info.st_mode & as_made) == as_made;
    found.rights_ = {why_not(shared, info.st_gid), shared ? "of the folder" : ""};
    wait_for_folder(found.folder_.get());
    auto names = watch::switch_names(found.folder_.get());
    if (!names) return fail("switch files refused: the folder cannot be read", path);
    found.names_ = std::move(*names);
    return std::optional<Switches>(std::move(found));
  }

  // All spellings: a file of a colleague, refused or not, must not hide the owner's beside it.
  void add(const std::string& verb, SwitchLook& look) const {
    const auto first = static_cast<std::ptrdiff_t>(look.seen.size());
    for (const std::string& name : names_) {
      if (watch::lower_case(name) != verb) continue;
      auto judged = judge(name, verb);
      if (!judged)
        look.refused.push_back({verb, judged.error().message()});
      else if (*judged)
        look.seen.push_back(std::move(**judged));
    }
    std::stable_partition(look.seen.begin() + first, look.seen.end(),
                          [](const SwitchSeen& seen) { return is_owners(seen.owner); });
  }

 private:
  static std::function<std::string(uid_t, const std::string&)> why_not(bool shared, gid_t group) {
    return [shared, group](uid_t user, const std::string& name) -> std::string {
      if (is_owners(user) || (shared && watch::is_member(user, group))) return "";
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
    return std::optional(
        SwitchSeen{verb, name, info.st_uid,
                   fmt::format("{}.{}.{}", info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec),
                   (*file)->author, body->reason});
  }

  std::string path_;
  os::Fd folder_;
  watch::SwitchRights rights_;
  std::vector<std::string> names_;
};

}  // namespace

Result<SwitchLook> look_at_switches(const std::string& run_directory) {
  STOKER_TRY(switches, Switches::open(run_directory));
  SwitchLook look;
  if (switches)
    for (const char* verb : kTakenUp) switches->add(verb, look);
  return look;
}

Result<std::optional<SwitchSeen>> SwitchLook::find(const std::string& verb) const {
  for (const SwitchSeen& file : seen)
    if (file.verb == verb) return std::optional(file);
  for (const SwitchRefused& file : refused)
    if (file.verb == verb) return fail(file.why);
  return std::optional<SwitchSeen>{};
}

}  // namespace stoker::agent
