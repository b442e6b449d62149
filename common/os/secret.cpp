// The checks are made on the open file, so that it cannot be exchanged in between.
#include "common/os/secret.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/fuse_mount.hpp"
#include "common/os/own_files.hpp"
#include "common/os/way.hpp"

namespace stoker::os {

namespace {

constexpr std::size_t kLongestSecret = 8u << 10;
constexpr std::string_view kCredential = "credential:";

Result<std::string> path_of(const std::string& path) {
  if (!path.starts_with(kCredential)) return path;
  const char* folder = ::getenv("CREDENTIALS_DIRECTORY");
  const std::string name = path.substr(kCredential.size());
  if (folder == nullptr)
    return fail("systemd gave no credentials to this process", path,
                "LoadCredential=" + name + ":FILE in the unit");
  if (name.empty() || name.find('/') != std::string::npos)
    return fail("is no name of a credential", path);
  return std::string(folder) + "/" + name;
}

Status check_private(int file, const std::string& path) {
  struct stat s {};
  if (::fstat(file, &s) != 0) return fail(errno_error(errno, "cannot look at it", path));
  if (s.st_uid != ::geteuid() && s.st_uid != 0)
    return fail(fmt::format("holds a secret but belongs to uid {}", s.st_uid), path,
                "it must belong to the user of stokerd or to root");
  STOKER_TRY_STATUS(check_mount(file, path));
  const unsigned forbidden = s.st_uid == 0 ? 027u : 077u;
  if ((s.st_mode & forbidden) != 0)
    return fail(fmt::format("holds a secret but has mode {:04o}", s.st_mode & 07777), path,
                "chmod 600 " + path);
  return ok();
}

}  // namespace

Result<std::string> read_secret(const std::string& path) {
  STOKER_TRY(name, path_of(path));
  // Another user's link could lead to another secret of ours, which would then be sent.
  STOKER_TRY(file, open_on_way(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return fail(errno_error(ENOENT, "cannot read the secret", name));
  STOKER_TRY_STATUS(check_private(file->get(), name));
  STOKER_TRY(text, read_open_file(file->get(), name, kLongestSecret));
  const auto end = text.find_last_not_of(" \t\r\n");
  std::string secret = text.substr(0, end == std::string::npos ? 0 : end + 1);
  if (secret.empty() || secret.find_first_of("\r\n") != std::string::npos ||
      secret.find('\0') != std::string::npos)
    return fail("must hold the secret alone, in one line", name);
  return secret;
}

}  // namespace stoker::os
