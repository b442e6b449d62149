#include "common/os/way.hpp"

#include <array>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "common/os/fuse_mount.hpp"
#include "common/os/own_files.hpp"

namespace stoker::os {
namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
constexpr uid_t kFirstPerson = 1000, kOverflow = 65534;
constexpr int kMostLinks = 40;  // as the kernel

// The parts of a path still to go, the next one last.
void push_parts(const std::string& path, std::vector<std::string>& parts) {
  for (std::size_t end = path.size(); end > 0;) {
    const std::size_t slash = path.rfind('/', end - 1);
    const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
    if (begin < end) parts.push_back(path.substr(begin, end - begin));
    end = slash == std::string::npos ? 0 : slash;
  }
}

bool is_trusted(const struct stat& link, const std::string& folder) {
  if (link.st_uid == ::geteuid() || link.st_uid < kFirstPerson) return true;
  struct stat around {};
  return link.st_uid == kOverflow && ::stat(folder.c_str(), &around) == 0 &&
         around.st_uid == kOverflow && (around.st_mode & kOthersWrite) == 0;
}

Result<std::string> target_of(int link, const std::string& named) {
  std::array<char, PATH_MAX> target{};
  const ssize_t size = ::readlinkat(link, "", target.data(), target.size());
  if (size < 0) return fail(errno_error(errno, "cannot read the link", named));
  return std::string(target.data(), static_cast<std::size_t>(size));
}

std::string below(const std::string& folder, const std::string& name) {
  return folder + (folder.ends_with('/') ? "" : "/") + name;
}

// A way that is walked by open folders, so that no part of it can be exchanged behind us.
class Walk {
 public:
  explicit Walk(const std::string& path) : path_(path) {
    push_parts(path, parts_);
    begin(path);
  }

  // Empty: why_none() says why. ENOENT: nothing is there; ENOTDIR: a part before the last is a
  // file; EISDIR: it is the root.
  Result<std::optional<Fd>> open(int flags) {
    while (folder_ && !parts_.empty()) {
      const std::string name = std::move(parts_.back());
      parts_.pop_back();
      Fd next(::openat(folder_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
      struct stat info {};
      if (!next || ::fstat(next.get(), &info) != 0) return missing(below(at_, name));
      if (S_ISLNK(info.st_mode)) {
        STOKER_TRY_STATUS(follow(next.get(), info, below(at_, name)));
      } else if (parts_.empty()) {
        Fd file(::openat(folder_.get(), name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC));
        if (!file) return missing(path_);
        return std::optional<Fd>(std::move(file));
      } else {
        at_ = below(at_, name);
        folder_ = std::move(next);
      }
    }
    if (folder_) errno = EISDIR;
    return missing(path_);
  }
  [[nodiscard]] int why_none() const { return why_none_; }

 private:
  void begin(const std::string& path) {
    at_ = path.starts_with('/') ? "/" : ".";
    folder_.reset(::open(at_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  Status follow(int link, const struct stat& info, const std::string& named) {
    if (!is_trusted(info, at_))
      return fail(fmt::format("refused: it is a symbolic link of {}, who can lead it elsewhere",
                              user_name_of(info.st_uid)),
                  named, "name the folder itself, or another one");
    STOKER_TRY_STATUS(check_mount(link, named));
    if (++links_ > kMostLinks) return fail(errno_error(ELOOP, "cannot follow", path_));
    STOKER_TRY(target, target_of(link, named));
    if (target.starts_with('/')) begin(target);
    push_parts(target, parts_);
    return ok();
  }
  Result<std::optional<Fd>> missing(const std::string& path) {
    why_none_ = errno;
    for (const int none : {ENOENT, ENOTDIR, EISDIR})
      if (why_none_ == none) return std::optional<Fd>{};
    return fail(errno_error(why_none_, "cannot open", path));
  }

  const std::string& path_;
  std::vector<std::string> parts_;
  Fd folder_;
  std::string at_;
  int links_ = 0, why_none_ = 0;
};

}  // namespace

Status check_way(const std::string& path) {
  Walk walk(path);
  STOKER_TRY(end, walk.open(O_PATH));
  if (!end && walk.why_none() == ENOTDIR) return fail(errno_error(ENOTDIR, "cannot look at", path));
  return ok();
}

Result<std::optional<Fd>> open_on_way(const std::string& path, int flags) {
  Walk walk(path);
  STOKER_TRY(file, walk.open(flags));
  if (!file && walk.why_none() == EISDIR) return fail(errno_error(EISDIR, "cannot open", path));
  return std::move(file);
}

Status check_put_here(const std::string& path) {
  struct stat entry {
  }, folder{};
  const Fd named(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!named || ::fstat(named.get(), &entry) != 0)
    return fail(errno_error(errno, "cannot read", path));
  const std::string around = path.substr(0, std::max<std::size_t>(1, path.rfind('/')));
  if (::stat(around.c_str(), &folder) != 0) return fail(errno_error(errno, "cannot read", around));
  if (entry.st_dev != folder.st_dev) STOKER_TRY_STATUS(check_mount(named.get(), path));
  if (entry.st_uid == 0 || entry.st_uid == ::geteuid()) return ok();
  if (entry.st_uid == folder.st_uid) return ok();
  return fail(
      fmt::format("refused: it belongs to {}, as its folder does not", user_name_of(entry.st_uid)),
      path, "remove it, or let no others write into the folder");
}

std::string open_folder_before(const std::string& path, uid_t uid) {
  std::error_code error;
  const auto parent = std::filesystem::absolute(path, error).parent_path();
  bool pinned = false;  // what lies in the folder is root's or ours: a sticky one keeps it there
  for (auto folder = std::filesystem::canonical(parent, error);; folder = folder.parent_path()) {
    if (error) return parent;
    const Fd opened(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct stat info {};
    if (!opened || ::fstat(opened.get(), &info) != 0) return folder;
    if (!forger_of(opened.get()).empty()) return folder;
    const bool closed = (info.st_mode & kOthersWrite) == 0;
    if (!closed && (!pinned || (info.st_mode & S_ISVTX) == 0)) return folder;
    if (info.st_uid != 0 && info.st_uid != uid) return folder;
    pinned = info.st_uid == 0 || info.st_uid == ::geteuid();
    if (folder == folder.parent_path()) return "";
  }
}

}  // namespace stoker::os
