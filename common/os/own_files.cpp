// Walks with openat(2) and judges what is open: nothing can be exchanged between look and use.
#include "common/os/own_files.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <pwd.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/acl.hpp"
#include "common/os/fd.hpp"
#include "common/os/fuse_mount.hpp"
#include "common/os/own_folder.hpp"
#include "common/os/permissions.hpp"

namespace stoker::os {
namespace {

constexpr std::string_view kRefused = "refused: ";
constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

Status refuse(const std::string& why, const std::string& path, const std::string& hint = "") {
  return fail(std::string(kRefused) + why, path, hint);
}

Status judge_owner(int fd, const struct stat& info, const std::string& path) {
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return refuse(fmt::format("it belongs to {}, not to {}", user_name_of(info.st_uid),
                              user_name_of(::geteuid())),
                  path, "remove it if you do not know where it comes from");
  return check_mount(fd, path);
}

Status judge(int fd, const struct stat& info, const std::string& path) {
  STOKER_TRY_STATUS(judge_owner(fd, info, path));
  if ((info.st_mode & kOthersWrite) != 0)
    return refuse(fmt::format("others may write it (mode {:04o})", info.st_mode & 07777u), path,
                  "chmod go-w " + path);
  return ok();
}

struct Named {
  Fd fd;
  struct stat info {};
};

// What the path names, pinned: all that is asked is asked of the same file.
Result<Named> look_at(const std::string& path, int flags) {
  Named named;
  named.fd.reset(::open(path.c_str(), O_PATH | O_CLOEXEC | flags));
  if (!named.fd || ::fstat(named.fd.get(), &named.info) != 0)
    return fail(errno_error(errno, "cannot stat", path));
  return named;
}

}  // namespace

std::string user_name_of(unsigned uid) {
  std::array<char, 16384> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return entry.pw_name;
  return fmt::format("uid {}", uid);
}

Error open_error(int error, const std::string& path) {
  if (error == ELOOP || error == ENOTDIR || error == EMLINK)
    return refuse("it is a symbolic link, or lies behind one", path).error();
  return errno_error(error, "cannot open", path);
}

bool is_refusal(const Error& error) {
  return error.what.starts_with(kRefused);
}

Status check_own(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return fail(errno_error(errno, "cannot stat", path));
  return judge(fd, info, path);
}

Status check_own(const std::string& path) {
  STOKER_TRY(named, look_at(path, O_NOFOLLOW));
  if (S_ISLNK(named.info.st_mode)) return refuse("it is a symbolic link, or lies behind one", path);
  return judge(named.fd.get(), named.info, path);
}

Status check_own_target(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return fail(errno_error(errno, "cannot open", path));
  return check_own(file.get(), path);
}

Status check_owner(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return fail(errno_error(errno, "cannot stat", path));
  return judge_owner(fd, info, path);
}

Status check_owner(const std::string& path) {
  STOKER_TRY(named, look_at(path, O_NOFOLLOW));
  STOKER_TRY_STATUS(judge_owner(named.fd.get(), named.info, path));
  if (!S_ISLNK(named.info.st_mode)) return ok();
  STOKER_TRY(target, look_at(path, 0));
  return judge_owner(target.fd.get(), target.info, path);
}

Status check_keeps_ours(const std::string& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) return fail(errno_error(errno, "cannot open", folder));
  if ((info.st_mode & S_ISVTX) != 0) info.st_mode &= ~kOthersWrite;
  return judge(fd.get(), info, folder);
}

Result<std::string> read_own_file(const std::string& base, const std::string& name,
                                  std::size_t limit) {
  std::string path = base;
  Fd folder(::open(base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return fail(errno_error(errno, "cannot open", path));
  std::string_view rest = name;
  for (;;) {
    STOKER_TRY_STATUS(check_own(folder.get(), path));
    const auto slash = rest.find('/');
    const std::string part(rest.substr(0, slash));
    path += "/" + part;
    if (slash == std::string_view::npos) {
      const Fd file(::openat(folder.get(), part.c_str(),
                             O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
      if (!file) return fail(open_error(errno, path));
      STOKER_TRY_STATUS(check_own(file.get(), path));
      return read_open_file(file.get(), path, limit);
    }
    rest.remove_prefix(slash + 1);
    Fd next(::openat(folder.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next) return fail(open_error(errno, path));
    folder = std::move(next);
  }
}

Status remove_own_folder(const std::string& base, const std::string& name,
                         const std::vector<std::string>& files) {
  std::string path = base, last;
  Fd folder(::open(base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), parent;
  if (!folder) return fail(errno_error(errno, "cannot open", path));
  for (std::string_view rest = name; !rest.empty();) {
    STOKER_TRY_STATUS(check_own(folder.get(), path));
    const auto slash = rest.find('/');
    last = rest.substr(0, slash);
    rest.remove_prefix(slash == std::string_view::npos ? rest.size() : slash + 1);
    path += "/" + last;
    Fd next(::openat(folder.get(), last.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next && errno == ENOENT) return ok();
    if (!next) return fail(open_error(errno, path));
    parent = std::move(folder);
    folder = std::move(next);
  }
  STOKER_TRY_STATUS(check_own(folder.get(), path));
  for (const std::string& file : files) {
    struct stat info {};
    if (::fstatat(folder.get(), file.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;
      return fail(errno_error(errno, "cannot stat", path + "/" + file));
    }
    if (!S_ISREG(info.st_mode)) return refuse("it is no regular file", path + "/" + file);
    if (info.st_uid != ::geteuid())
      return refuse("it belongs to " + user_name_of(info.st_uid), path + "/" + file);
    if (::unlinkat(folder.get(), file.c_str(), 0) != 0 && errno != ENOENT)
      return fail(errno_error(errno, "cannot delete", path + "/" + file));
  }
  if (::unlinkat(parent.get(), last.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
    return fail(errno_error(errno, "cannot delete", path));
  return ok();
}

Status remove_own_files(const std::string& base, const std::string& name,
                        bool (*expected)(std::string_view), const std::string& first) {
  const std::string path = base + "/" + name;
  const Fd parent(::open(base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent) return fail(errno_error(errno, "cannot open", base));
  Fd folder(::openat(parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder && errno == ENOENT) return ok();
  if (!folder) return fail(open_error(errno, path));
  STOKER_TRY_STATUS(check_owner(folder.get(), path));
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(folder.get()), ::closedir);
  if (!entries) return fail(errno_error(errno, "cannot read directory", path));
  const int fd = folder.release();  // closed with the list
  std::vector<std::string> files;
  errno = 0;
  while (const dirent* entry = ::readdir(entries.get()))
    if (const std::string_view file = entry->d_name; file != "." && file != "..")
      files.emplace_back(file);
  if (errno != 0) return fail(errno_error(errno, "cannot read directory", path));
  const auto other =
      std::partition(files.begin(), files.end(), [&](const auto& file) { return expected(file); });
  const std::string stays = other == files.end() ? "" : *other;
  files.erase(other, files.end());
  if (const auto at = std::find(files.begin(), files.end(), first); at != files.end())
    std::iter_swap(files.begin(), at);
  for (const std::string& file : files)
    if (::unlinkat(fd, file.c_str(), 0) != 0 && errno != ENOENT)
      return fail(errno_error(errno, "cannot delete", path + "/" + file));
  if (!stays.empty()) return fail("does not belong there; it stays", path + "/" + stays);
  if (::unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
    return fail(errno_error(errno, "cannot delete", path));
  return ok();
}

Result<std::optional<std::string>> find_own_file(const std::string& base, const std::string& name,
                                                 std::size_t limit) {
  struct stat info {};
  if (::lstat((base + "/" + name).c_str(), &info) != 0 && errno == ENOENT)
    return std::optional<std::string>{};
  STOKER_TRY(text, read_own_file(base, name, limit));
  return std::optional(std::move(text));
}

Result<bool> close_to_others(const std::string& path) {
  const Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder && errno == ENOENT) return false;
  struct stat info {};
  if (!folder || ::fstat(folder.get(), &info) != 0)
    return fail(errno_error(errno, "cannot open", path));
  if (info.st_uid != ::geteuid()) {
    STOKER_TRY_STATUS(judge(folder.get(), info, path));
    return false;
  }
  STOKER_TRY_STATUS(check_mount(folder.get(), path));
  STOKER_TRY(inherited, take_write_from_default_acl(folder.get(), path));
  if ((info.st_mode & kOthersWrite) == 0) return inherited;
  STOKER_TRY_STATUS(set_mode(folder.get(), info.st_mode & 07777 & ~kOthersWrite,
                             "cannot take write permission from others", path));
  return true;
}

}  // namespace stoker::os
