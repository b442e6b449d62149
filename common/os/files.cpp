#include "common/os/files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <glob.h>
#include <memory>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/fd.hpp"
#include "common/os/own_files.hpp"
#include "common/os/own_folder.hpp"
#include "common/os/patterns.hpp"
#include "common/os/permissions.hpp"
#include "common/os/random.hpp"

namespace stoker::os {
namespace {

// In a folder of several users a name that they could foresee would be taken before us.
std::string aside_name(const std::string& path) {
  std::uint64_t number = 0;
  const std::string bytes = random_bytes(sizeof number);
  std::memcpy(&number, bytes.data(), sizeof number);
  return fmt::format("{}.new.{}.{}", path, ::getpid(), number);
}

// "control.json.new.4711.3", and a claim's "….new.4711.3.host"
bool is_aside_name(std::string_view name) {
  constexpr std::string_view kAside = ".new.";
  const auto at = name.rfind(kAside);
  if (at == std::string_view::npos || at == 0) return false;
  name.remove_prefix(at + kAside.size());
  for (int part = 0; part < 2; ++part) {
    const auto digits = std::min(name.find_first_not_of("0123456789"), name.size());
    if (digits == 0 || (digits < name.size() && name[digits] != '.')) return false;
    if (digits == name.size()) return part == 1;
    name.remove_prefix(digits + 1);
  }
  return true;
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status write_new(const std::string& path, std::string_view content, Durability durability,
                 unsigned mode, bool exact = false) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd) return fail(errno_error(errno, "cannot create", path));
  if (exact) (void)set_mode(fd.get(), mode, "cannot set the mode", path);  // not all disks can
  Status written = write_open_file(fd.get(), path, content);
  if (written && durability == Durability::Synced && ::fsync(fd.get()) != 0)
    written = fail(errno_error(errno, "cannot fsync", path));
  if (!written) ::unlink(path.c_str());
  return written;
}

Status put_in_place(const std::string& path, std::string_view content, Durability durability,
                    unsigned mode, bool exact) {
  const std::string aside = aside_name(path);
  STOKER_TRY_STATUS(write_new(aside, content, durability, mode, exact));
  if (::rename(aside.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(aside.c_str());
    return fail(errno_error(error, "cannot rename into place", path));
  }
  return durability == Durability::Synced ? sync_directory(folder_of(path)) : ok();
}

struct KnownFileSystem {
  unsigned long magic;
  const char* name;
};
constexpr KnownFileSystem kNetwork[] = {
    {0x6969, "nfs"},      {0x0BD00BD0, "lustre"}, {0x47504653, "gpfs"}, {0x19830326, "beegfs"},
    {0x65735546, "fuse"}, {0x00C36400, "ceph"},   {0xFE534D42, "smb"},  {0x01021997, "9p"},
};

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t limit, bool no_follow) {
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (no_follow ? O_NOFOLLOW : 0);
  const Fd fd(::open(path.c_str(), flags));
  if (!fd) return fail(errno_error(errno, "cannot open", path));
  return read_open_file(fd.get(), path, limit);
}

Result<std::string> read_open_file(int fd, const std::string& path, std::size_t limit) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return fail(errno_error(errno, "cannot stat", path));
  if (!S_ISREG(info.st_mode)) return fail("not a regular file", path);
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(errno_error(errno, "cannot read", path));
    if (n == 0) return content;
    content.append(buffer, static_cast<std::size_t>(n));
    if (content.size() > limit) return fail(fmt::format("larger than {} bytes", limit), path);
  }
}

Status write_open_file(int fd, const std::string& path, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(errno_error(errno, "cannot write", path));
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return ok();
}

Status replace_file(const std::string& path, std::string_view content, Durability durability,
                    unsigned mode) {
  return put_in_place(path, content, durability, mode, false);
}

Status publish_file(const std::string& path, std::string_view content, Durability durability,
                    unsigned mode) {
  return put_in_place(path, content, durability, mode, true);
}

Status append_file(const std::string& path, std::string_view content, Durability durability,
                   unsigned mode) {
  // In a folder of all users the name may be a FIFO of somebody, who would hold us in open(2), or a
  // link to another file of ours.
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW;
  Fd fd(::open(path.c_str(), kFlags));
  // Only now: O_CREAT takes the folder's lock, which others may hold (watch/part.hpp), in kernels
  // before 6.10 also where the file is there.
  if (!fd && errno == ENOENT) fd = Fd(::open(path.c_str(), kFlags | O_CREAT, mode));
  if (!fd && errno == ELOOP)
    return fail("is a symbolic link: nothing is appended to what it names", path,
                "name that file itself");
  if (!fd) return fail(errno_error(errno, "cannot open for append", path));
  STOKER_TRY_STATUS(write_open_file(fd.get(), path, content));
  if (durability == Durability::Synced && ::fsync(fd.get()) != 0)
    return fail(errno_error(errno, "cannot fsync", path));
  return ok();
}

Result<bool> claim_file(const std::string& path, std::string_view content, unsigned mode) {
  const std::string aside = fmt::format("{}.{}", aside_name(path), host_name());
  STOKER_TRY_STATUS(write_new(aside, content, Durability::Synced, mode));
  const int linked = ::link(aside.c_str(), path.c_str());
  const int link_error = errno;
  struct stat info {};
  const bool seen = ::stat(aside.c_str(), &info) == 0;
  ::unlink(aside.c_str());
  if (linked == 0 || (seen && info.st_nlink == 2)) {
    STOKER_TRY_STATUS(sync_directory(folder_of(path)));
    return true;
  }
  if (!seen || link_error != EEXIST) return fail(errno_error(link_error, "cannot claim", path));
  return false;
}

std::size_t sweep_aside_files(const std::string& folder, Duration age) {
  const auto names = list_directory(folder);
  std::size_t removed = 0;
  for (const std::string& name : names.value_or(std::vector<std::string>{})) {
    struct stat info {};
    const std::string path = folder + "/" + name;
    if (!is_aside_name(name) || ::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
        info.st_uid != ::geteuid())
      continue;
    const auto changed = std::chrono::system_clock::from_time_t(info.st_mtim.tv_sec);
    if (std::chrono::system_clock::now() - changed < age) continue;
    removed += ::unlink(path.c_str()) == 0 ? 1 : 0;
  }
  return removed;
}

Status make_directories(const std::string& path, unsigned mode) {
  if (path.empty() || exists(path)) return ok();
  const std::string parent = folder_of(path);
  if (parent != path) STOKER_TRY_STATUS(make_directories(parent, mode));
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST)
    return fail(errno_error(errno, "cannot create directory", path));
  return ok();
}

Status sync_directory(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail(errno_error(errno, "cannot open directory", path));
  if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
    return fail(errno_error(errno, "cannot fsync directory", path));
  return ok();
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (!folder) return fail(errno_error(errno, "cannot read directory", path));
  std::vector<std::string> names;
  for (;;) {
    errno = 0;  // half a list proves nothing about the names that are missing in it
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr && errno != 0)
      return fail(errno_error(errno, "cannot read directory", path));
    if (entry == nullptr) break;
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> tree_print(const std::string& path) {
  constexpr std::size_t kMost = 1'000'000;
  if (struct stat info{}; ::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return std::string("none");
    return fail(errno_error(errno, "cannot look at", path));
  }
  std::vector<std::string> folders{path};
  std::size_t entries = 0;
  std::uint64_t print = 0;
  while (!folders.empty()) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    auto names = list_directory(folder);
    if (!names && !exists(folder)) continue;  // removed meanwhile
    if (!names) return fail(names.error());
    for (const std::string& name : *names) {
      const std::string entry = folder + "/" + name;
      struct stat info {};
      if (::lstat(entry.c_str(), &info) != 0) {
        if (errno == ENOENT) continue;
        return fail(errno_error(errno, "cannot look at", entry));
      }
      if (++entries > kMost)
        return fail(fmt::format("more than {} files to look through", kMost), path);
      print += xxh3_64(fmt::format("{}\n{} {} {}.{:09}", entry, info.st_mode, info.st_size,
                                   info.st_mtim.tv_sec, info.st_mtim.tv_nsec));
      if (S_ISDIR(info.st_mode)) folders.push_back(entry);
    }
  }
  return fmt::format("{:016x} of {}", print, entries);
}

Result<std::vector<std::string>> find_matching_paths(const std::string& pattern) {
  static thread_local std::size_t looked_at;  // glob(3) hands its functions nothing of ours
  looked_at = 0;
  glob_t matches{};
  matches.gl_opendir = [](const char* path) -> void* {
    return ++looked_at > kMostNames ? nullptr : ::opendir(path);
  };
  matches.gl_readdir = [](void* folder) {
    return ++looked_at > kMostNames ? nullptr : ::readdir(static_cast<DIR*>(folder));
  };
  matches.gl_closedir = [](void* folder) { ::closedir(static_cast<DIR*>(folder)); };
  matches.gl_lstat = [](const char* path, struct stat* info) { return ::lstat(path, info); };
  matches.gl_stat = [](const char* path, struct stat* info) { return ::stat(path, info); };
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), GLOB_ALTDIRFUNC, nullptr, &matches) == 0)
    for (std::size_t i = 0; i < matches.gl_pathc; ++i) paths.emplace_back(matches.gl_pathv[i]);
  ::globfree(&matches);
  if (looked_at > kMostNames)
    return fail(fmt::format("more than {} names would have to be read", kMostNames), pattern,
                "name a narrower pattern");
  return paths;
}

std::vector<std::string> matching_paths(const std::string& pattern) {
  return find_matching_paths(pattern).value_or(std::vector<std::string>{});
}

bool exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

Result<std::string> absolute_path(const std::string& path) {
  std::error_code error;
  const auto result = std::filesystem::absolute(path, error).lexically_normal();
  if (error) return fail(error.message(), path);
  std::string text = result.string();
  if (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

Result<FileSystem> file_system_of(const std::string& path) {
  struct statfs info {};
  if (::statfs(path.c_str(), &info) != 0) return fail(errno_error(errno, "cannot statfs", path));
  for (const KnownFileSystem& known : kNetwork)
    if (static_cast<unsigned long>(info.f_type) == known.magic) return FileSystem{known.name, true};
  return FileSystem{"local", false};
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string boot_id() {
  const auto text = read_file("/proc/sys/kernel/random/boot_id", 128);
  if (!text) return "";
  return text->substr(0, text->find('\n'));
}

std::int64_t mtime_ns(const struct stat& info) {
  std::int64_t ns = 0;
  const bool fits = !__builtin_mul_overflow(info.st_mtim.tv_sec, 1'000'000'000, &ns) &&
                    !__builtin_add_overflow(ns, info.st_mtim.tv_nsec, &ns);
  return fits ? ns : 0;
}

}  // namespace stoker::os
