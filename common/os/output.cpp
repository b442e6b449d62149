#include "common/os/output.hpp"

#include <array>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/own_files.hpp"
#include "common/os/own_folder.hpp"
#include "common/printable.hpp"

namespace stoker::os {
namespace {

constexpr int kMostLinks = 40;  // as the kernel
constexpr long kProcMagic = 0x9fa0;
constexpr const char* kNothing = "; nothing is written";

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISBLK(mode)) return "a block device";
  if (S_ISFIFO(mode)) return "a FIFO";
  return S_ISLNK(mode) ? "a symbolic link" : "a device";
}

// Who reads a FIFO, and where a link leads, is its owner's choice.
Status check_owner_of(const struct stat& info, const std::string& path) {
  if (info.st_uid == ::geteuid() || info.st_uid == 0) return ok();
  return fail(fmt::format("refused: it is {} of {}{}", kind_of(info.st_mode),
                          user_name_of(info.st_uid), kNothing),
              path, "name another file");
}

bool is_written_into(mode_t mode) {
  return S_ISCHR(mode) || S_ISFIFO(mode);
}

Status write_into(const std::string& open_path, int flags, const std::string& path,
                  std::string_view content) {
  const Fd file(::open(open_path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | flags));
  if (!file) return fail(errno_error(errno, "cannot write", path));
  if (::isatty(file.get()) == 1) return write_open_file(file.get(), path, printable_lines(content));
  return write_open_file(file.get(), path, content);
}

Result<std::string> target_of(int link, const std::string& path) {
  std::array<char, PATH_MAX> text{};
  const ssize_t size = ::readlinkat(link, "", text.data(), text.size());
  if (size < 0) return fail(errno_error(errno, "cannot read the link", path));
  const std::string target(text.data(), static_cast<std::size_t>(size));
  if (target.starts_with('/')) return target;
  return path.substr(0, path.rfind('/') + 1) + target;
}

// A link of /proc to what a process has open: its text is no path.
bool is_open_file(int link) {
  struct statfs around {};
  return ::fstatfs(link, &around) == 0 && around.f_type == kProcMagic;
}

}  // namespace

Status write_output(const std::string& path, std::string_view content, Durability durability,
                    unsigned mode) {
  std::string at = path;
  for (int links = 0; links < kMostLinks; ++links) {
    const Fd entry(::open(at.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!entry && errno == ENOENT && links > 0)
      return fail(fmt::format("it is a symbolic link to {}, which is not there{}", at, kNothing),
                  path, "name the file itself");
    if (!entry && errno == ENOENT) return replace_file(at, content, durability, mode);
    if (!entry || ::fstat(entry.get(), &info) != 0)
      return fail(errno_error(errno, "cannot write", at));
    if (S_ISREG(info.st_mode)) return replace_file(at, content, durability, mode);
    if (is_written_into(info.st_mode)) {
      STOKER_TRY_STATUS(check_owner_of(info, at));
      return write_into(fmt::format("/proc/self/fd/{}", entry.get()), 0, path, content);
    }
    if (!S_ISLNK(info.st_mode))
      return fail(fmt::format("it is {}{}", kind_of(info.st_mode), kNothing), at, "name a file");
    STOKER_TRY_STATUS(check_owner_of(info, at));
    if (is_open_file(entry.get())) return write_into(at, O_APPEND, path, content);
    STOKER_TRY(target, target_of(entry.get(), at));
    at = std::move(target);
  }
  return fail(errno_error(ELOOP, "cannot write", path));
}

}  // namespace stoker::os
