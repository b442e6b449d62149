#include "common/os/writers.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <memory>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/acl.hpp"
#include "common/os/fd.hpp"
#include "common/os/fuse_mount.hpp"
#include "common/os/own_files.hpp"

namespace stoker::os {
namespace {

std::string group_name_of(gid_t group) {
  std::vector<char> buffer(256u << 10);
  struct group record {};
  struct group* found = nullptr;
  if (::getgrgid_r(group, &record, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return record.gr_name;
  return fmt::format("gid {}", group);
}

// Another person among the members of a group that has its owner's name: `usermod -aG alice bob` is
// a usual way to share. Who has it as his own group is asked in /etc/passwd alone: directories of
// users are not listed for that. Users of the system are trusted as root is.
std::string other_member(gid_t group, uid_t owner) {
  constexpr uid_t kPeople = 1000;  // and above
  std::vector<char> buffer(256u << 10), entry(16u << 10);
  const auto is_other = [owner](const passwd& user) {
    return user.pw_uid != owner && user.pw_uid >= kPeople;
  };
  struct group record {};
  struct group* found = nullptr;
  passwd person{};
  passwd* user = nullptr;
  if (::getgrgid_r(group, &record, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    for (char** member = record.gr_mem; *member != nullptr; ++member)
      if (::getpwnam_r(*member, &person, entry.data(), entry.size(), &user) == 0 &&
          user != nullptr && is_other(*user))
        return *member;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> users(std::fopen("/etc/passwd", "re"),
                                                              &std::fclose);
  while (users && ::fgetpwent_r(users.get(), &person, entry.data(), entry.size(), &user) == 0)
    if (user->pw_gid == group && is_other(*user)) return user->pw_name;
  return "";
}

// `made`: files of new names are meant, which a sticky folder takes from all who may write it.
std::string who_writes(int fd, bool made) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return "";
  const std::string owner = user_name_of(info.st_uid);
  if (info.st_uid != ::geteuid() && info.st_uid != 0) return owner;
  if (const std::string forger = forger_of(fd); !forger.empty())
    return forger + " (by a FUSE mount)";
  if (!made && S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0) return "";
  if ((info.st_mode & S_IWOTH) != 0) return "everybody";
  if ((info.st_mode & S_IWGRP) == 0) return "";
  const std::string group = group_name_of(info.st_gid);
  if (group != owner) return "group " + group;
  if (const std::string member = other_member(info.st_gid, info.st_uid); !member.empty())
    return fmt::format("group {} ({})", group, member);
  // With an ACL these bits say what its users and groups may do at most.
  return has_acl(fd) ? "the users of its ACL" : "";
}

Fd open_to_judge(const std::string& path) {
  return Fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

// One that its owner lets us not open, by a lease for instance, is judged by its owner and mode.
Fd open_or_name(const std::string& path) {
  Fd file = open_to_judge(path);
  if (!file) file.reset(::open(path.c_str(), O_PATH | O_CLOEXEC));
  return file;
}

}  // namespace

std::string other_writer(int fd) {
  return who_writes(fd, false);
}

std::string other_writer(const std::string& path) {
  const Fd file = open_or_name(path);
  return file ? who_writes(file.get(), false) : "";
}

std::string other_maker(const std::string& folder) {
  const Fd opened = open_or_name(folder);
  return opened ? who_writes(opened.get(), true) : "";
}

Result<std::string> read_guarded_file(const std::string& path, std::size_t limit) {
  const Fd file = open_to_judge(path);
  if (!file) return fail(errno_error(errno, "cannot open", path));
  if (const std::string who = other_writer(file.get()); !who.empty())
    return fail(fmt::format("refused: {} can write it, and so decides what is executed as {}", who,
                            user_name_of(::geteuid())),
                path, "make it yours alone: chown, chmod go-w " + path);
  return read_open_file(file.get(), path, limit);
}

Status check_entries(const std::string& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    const Fd entry(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!entry || ::fstat(entry.get(), &info) != 0) {
      if (errno == ENOENT) continue;
      return fail(errno_error(errno, "cannot look at it", path));
    }
    if (info.st_uid != ::geteuid() && info.st_uid != 0)
      return fail(fmt::format("refused: it belongs to {}, who could write in this folder before",
                              user_name_of(info.st_uid)),
                  path, "move it away, or chown it if you know what it is");
    STOKER_TRY_STATUS(check_mount(entry.get(), path));
  }
  return ok();
}

Status check_entries(const std::string& folder) {
  STOKER_TRY(names, list_directory(folder));
  return check_entries(folder, names);
}

}  // namespace stoker::os
