#include "common/os/way.hpp"

#include <array>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

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

Result<std::string> target_of(const std::string& link) {
  std::array<char, PATH_MAX> target{};
  const ssize_t size = ::readlink(link.c_str(), target.data(), target.size());
  if (size < 0) return fail(errno_error(errno, "cannot read the link", link));
  return std::string(target.data(), static_cast<std::size_t>(size));
}

}  // namespace

Status check_way(const std::string& path) {
  std::vector<std::string> parts;
  push_parts(path, parts);
  std::string at = path.starts_with('/') ? "/" : ".";
  for (int links = 0; !parts.empty();) {
    const std::string next = at + (at.ends_with('/') ? "" : "/") + parts.back();
    parts.pop_back();
    struct stat info {};
    if (::lstat(next.c_str(), &info) != 0) {
      if (errno == ENOENT) return ok();
      return fail(errno_error(errno, "cannot look at", next));
    }
    if (!S_ISLNK(info.st_mode)) {
      at = next;
      continue;
    }
    if (!is_trusted(info, at))
      return fail(fmt::format("refused: it is a symbolic link of {}, who can lead it elsewhere",
                              user_name_of(info.st_uid)),
                  next, "name the folder itself, or another one");
    if (++links > kMostLinks) return fail(errno_error(ELOOP, "cannot follow", path));
    STOKER_TRY(target, target_of(next));
    if (target.starts_with('/')) at = "/";
    push_parts(target, parts);
  }
  return ok();
}

std::string open_folder_before(const std::string& path, uid_t uid) {
  std::error_code error;
  const auto parent = std::filesystem::absolute(path, error).parent_path();
  bool pinned = false;  // what lies in the folder is root's or ours: a sticky one keeps it there
  for (auto folder = std::filesystem::canonical(parent, error);; folder = folder.parent_path()) {
    struct stat info {};
    if (error || ::stat(folder.c_str(), &info) != 0) return error ? parent : folder;
    const bool closed = (info.st_mode & kOthersWrite) == 0;
    if (!closed && (!pinned || (info.st_mode & S_ISVTX) == 0)) return folder;
    if (info.st_uid != 0 && info.st_uid != uid) return folder;
    pinned = info.st_uid == 0 || info.st_uid == ::geteuid();
    if (folder == folder.parent_path()) return "";
  }
}

}  // namespace stoker::os
