#include "common/os/own_folder.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "common/os/files.hpp"
#include "common/os/own_files.hpp"

namespace stoker::os {

namespace {

// errno stays: callers tell a full disk by it.
Unexpected failed(const char* what, const std::string& path) {
  const int error = errno;
  Unexpected failure = fail(errno_error(error, what, path));
  errno = error;
  return failure;
}

}  // namespace

Result<OwnFolder> OwnFolder::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return fail(open_error(errno, path));
  STOKER_TRY_STATUS(check_own(fd.get(), path));
  return OwnFolder(std::move(fd), path);
}

Result<Fd> OwnFolder::create(const std::string& name, unsigned mode) const {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  Fd file;
  if (::unlinkat(fd_.get(), name.c_str(), 0) == 0 || errno == ENOENT)
    file.reset(::openat(fd_.get(), name.c_str(), kFlags, mode));
  if (!file) return failed("cannot create", path_ + "/" + name);
  return file;
}

Status OwnFolder::put(const std::string& name, std::string_view content) const {
  const std::string aside = name + ".new", path = path_ + "/" + name;
  STOKER_TRY(file, create(aside));
  STOKER_TRY_STATUS(write_open_file(file.get(), path, content));
  if (::fsync(file.get()) != 0) return fail(errno_error(errno, "cannot fsync", path));
  STOKER_TRY_STATUS(rename(aside, name));
  return sync();
}

Status OwnFolder::rename(const std::string& from, const std::string& to) const {
  if (::renameat(fd_.get(), from.c_str(), fd_.get(), to.c_str()) != 0)
    return failed("cannot rename into place", path_ + "/" + to);
  return ok();
}

Result<std::vector<std::string>> OwnFolder::names() const {
  return list_directory(fmt::format("/proc/self/fd/{}", fd_.get()));
}

Status OwnFolder::remove(const std::string& name) const {
  if (::unlinkat(fd_.get(), name.c_str(), 0) != 0)
    return failed("cannot remove", path_ + "/" + name);
  return ok();
}

bool OwnFolder::is_at_path() const {
  struct stat open {
  }, named{};
  return ::fstat(fd_.get(), &open) == 0 && ::lstat(path_.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

Status OwnFolder::sync() const {
  if (::fsync(fd_.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
    return fail(errno_error(errno, "cannot fsync directory", path_));
  return ok();
}

}  // namespace stoker::os
