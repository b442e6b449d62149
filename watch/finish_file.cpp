// The file's edge, remembered in a cursor of its own.
#include "watch/finish_file.hpp"

#include <array>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/own_folder.hpp"
#include "common/os/way.hpp"
#include "common/os/writers.hpp"

namespace stoker::watch {

namespace {

constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK;

struct Place {
  std::string folder, name;
};
Place place_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/." : path.substr(0, slash), path.substr(slash + 1)};
}

// Where the open file lies: behind a link of ours in another folder.
Result<std::string> real_path_of(int file, const std::string& path) {
  std::array<char, PATH_MAX> real{};
  const std::string link = fmt::format("/proc/self/fd/{}", file);
  const ssize_t size = ::readlink(link.c_str(), real.data(), real.size());
  if (size < 0) return fail(errno_error(errno, "cannot find its folder", path));
  return std::string(real.data(), static_cast<std::size_t>(size));
}

// A folder where only we make files. Empty: it is not there.
Result<std::optional<os::Fd>> open_closed(const std::string& folder) {
  STOKER_TRY(opened, os::open_on_way(folder, kFolder));
  if (!opened) return std::optional<os::Fd>{};
  if (const std::string who = os::other_maker(opened->get()); !who.empty())
    return fail(
        fmt::format("refused: {} can put files into the folder, other files of yours too", who),
        folder, "keep the file in a folder where only you can write");
  return std::move(opened);
}

// Whether this name in the folder is the file itself, not a link to it.
bool is_entry(int folder, const std::string& name, const struct stat& file) {
  struct stat entry {};
  return ::fstatat(folder, name.c_str(), &entry, AT_SYMLINK_NOFOLLOW) == 0 &&
         entry.st_dev == file.st_dev && entry.st_ino == file.st_ino;
}

}  // namespace

// The folder comes first: what others can lock is not looked into.
Result<bool> is_finish_file(const std::string& path) {
  const Place named = place_of(path);
  STOKER_TRY(folder, open_closed(named.folder));
  if (!folder) return false;
  STOKER_TRY(opened, os::open_on_way(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!opened) return false;
  if (::fstat(opened->get(), &info) != 0) return fail(errno_error(errno, "cannot stat", path));
  if (!S_ISREG(info.st_mode)) return false;
  STOKER_TRY_STATUS(os::check_owner(opened->get(), path));
  if (info.st_nlink != 1)
    return fail("refused: it has several names, so another user may have given it this one", path,
                "let the training write a file of its own");
  if (is_entry(folder->get(), named.name, info)) return true;
  STOKER_TRY(real, real_path_of(opened->get(), path));
  const Place there = place_of(real);
  STOKER_TRY(behind, open_closed(there.folder));
  return behind && is_entry(behind->get(), there.name, info);
}

FinishFile::FinishFile(const core::RunPolicy& policy, const std::vector<core::Cursor>& cursors)
    : run_(policy.run) {
  const std::string& file = policy.train.finished.file;
  if (file.empty()) return;
  path_ = file.starts_with('/') ? file : policy.directory + "/" + file;
  key_ = "finished:" + run_.text + ":" + path_;
  for (const auto& cursor : cursors)
    if (cursor.path == key_) there_ = cursor.offset == 1;
}

void FinishFile::poll(std::vector<core::Input>& out) {
  if (path_.empty()) return;
  const auto found = is_finish_file(path_);
  if (!found && found.error().message() != refused_) {
    refused_ = found.error().message();
    out.push_back({run_, core::LogFollowed{path_, "no end of the training: " + refused_}, {}});
  }
  if (!found || *found == there_) return;  // unknown: it is as it was
  there_ = !there_;
  core::Cursor cursor;
  cursor.path = key_;
  cursor.offset = there_ ? 1 : 0;
  out.push_back({run_, core::FinishFileSeen{path_, there_}, {std::move(cursor)}});
}

}  // namespace stoker::watch
