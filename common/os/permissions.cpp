#include "common/os/permissions.hpp"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/acl.hpp"
#include "common/os/fd.hpp"
#include "common/os/own_files.hpp"

namespace stoker::os {
namespace {
std::atomic<int> users_umask = -1;  // make_private() put it aside, as the kernel has only one
}

Status set_mode(const std::string& path, mode_t mode, const std::string& what) {
  if (::fchmodat(AT_FDCWD, path.c_str(), mode, AT_SYMLINK_NOFOLLOW) != 0)
    return fail(errno_error(errno, what, path));
  return ok();
}

// What is right already is not set again: that would take the file's lock, which others may hold.
Status set_mode(int fd, mode_t mode, const std::string& what, const std::string& path) {
  struct stat info {};
  const bool is_set = ::fstat(fd, &info) == 0 && (info.st_mode & 07777) == mode;
  if (!is_set && ::fchmod(fd, mode) != 0) return fail(errno_error(errno, what, path));
  return ok();
}

Status set_folder_mode(const std::string& path, mode_t mode, const std::string& what) {
  const Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return fail(errno_error(errno, what, path));
  STOKER_TRY_STATUS(set_mode(folder.get(), mode, what, path));
  return remove_acls(folder.get(), path);
}

Status share_folder(const std::string& path, std::optional<gid_t> group, mode_t mode,
                    const std::string& what) {
  const Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!folder && ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) return ok();
  if (!folder) return fail(errno_error(errno, what, path));
  const bool is_theirs = ::fstat(folder.get(), &info) == 0 && group == info.st_gid;
  if (group && !is_theirs && ::fchown(folder.get(), static_cast<uid_t>(-1), *group) != 0)
    return fail(errno_error(errno, what, path));
  STOKER_TRY_STATUS(set_mode(folder.get(), mode, what, path));
  return remove_acls(folder.get(), path);
}

UmaskFor::UmaskFor(mode_t umask) : before_(::umask(umask)) {}

UmaskFor::~UmaskFor() {
  ::umask(before_);
}

void make_private() {
  users_umask = static_cast<int>(::umask(0077));
}

void take_write_from_others() {
  const mode_t given = ::umask(0077);
  ::umask(given | S_IWGRP | S_IWOTH);
}

void restore_umask() {
  if (const int umask = users_umask; umask >= 0) ::umask(static_cast<mode_t>(umask));
}

}  // namespace stoker::os
