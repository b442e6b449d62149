// Listing the folder, judging a file, reading its body.
#include "watch/switch_folder.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <memory>
#include <pwd.h>
#include <set>
#include <unistd.h>

#include "common/os/fuse_mount.hpp"
#include "common/os/own_files.hpp"
#include "common/printable.hpp"

namespace stoker::watch {

namespace {

constexpr std::size_t kLargest = 64u << 10;
constexpr std::size_t kLongestReason = 500;
constexpr std::size_t kLongestWord = 64;
constexpr std::size_t kMostNames = 10'000;  // read of the folder; the plain names are looked for
constexpr std::array<std::string_view, 7> kVerbs{"save",   "stop",    "kill", "pause",
                                                 "resume", "restart", "ack"};

std::string upper_case(std::string_view text) {
  std::string all(text);
  for (char& c : all) c = static_cast<char>(c - 'a' + 'A');
  return all;
}

// One line that people read.
std::string one_line(std::string_view text, std::size_t limit) {
  std::string out = printable(text.substr(0, limit));
  while (!out.empty() && out.back() == ' ') out.pop_back();
  while (!out.empty() && out.front() == ' ') out.erase(out.begin());
  return out;
}

std::string kind_of_file(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Who may rename files in some folder of another user can move one of them here: it is no order of
// its owner. What is made here belongs to the folder's group, as the folder is setgid; what its
// owner made in another such folder of the group does too, and may still have been moved.
bool was_made_in(int folder, const struct stat& file) {
  struct stat here {};
  return ::fstat(folder, &here) == 0 && here.st_gid == file.st_gid;
}

// Whether its owner wrote it as a switch, as `stoker` does: any other file of his may have been
// moved here by a member of the group.
bool names_its_owner(const SwitchFile& file, const std::string& name) {
  std::string text(kLargest, '\0');
  const ssize_t got = ::pread(file.fd.get(), text.data(), text.size(), 0);
  if (got < 0) return false;
  text.resize(static_cast<std::size_t>(got));
  const auto body = from_json_text<wire::SwitchBody>(text, name, {kLargest, 8});
  return body && body->by == file.author;
}

// A member's whose umask closes it to us too: its order counts, its text is not known.
os::Fd open_unread(int folder, const std::string& name) {
  return os::Fd(::openat(folder, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
}

}  // namespace

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

bool is_switch(const std::string& name) {
  return std::find(kVerbs.begin(), kVerbs.end(), lower_case(name)) != kVerbs.end();
}

std::optional<std::vector<std::string>> switch_names(int folder) {
  std::set<std::string> names;
  struct stat about {};
  for (const std::string_view verb : kVerbs)
    for (const std::string& name : {std::string(verb), upper_case(verb)})
      if (::fstatat(folder, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0) names.insert(name);
  const int again = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> list(again < 0 ? nullptr : ::fdopendir(again),
                                                 ::closedir);
  if (!list) return std::nullopt;
  for (std::size_t read = 0; read < kMostNames; ++read) {
    errno = 0;
    const dirent* entry = ::readdir(list.get());
    if (entry == nullptr && errno != 0) return std::nullopt;
    if (entry == nullptr) break;
    if (entry->d_name[0] != '.') names.insert(entry->d_name);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

Result<std::optional<SwitchFile>> open_switch(int folder, const std::string& name,
                                              const SwitchRights& rights) {
  SwitchFile file;
  file.fd.reset(
      ::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  const int error = file.fd ? 0 : errno;
  if (error == ENOENT) return std::optional<SwitchFile>{};
  if (error == EACCES) file.fd = open_unread(folder, name);
  if (!file.fd)
    return fail(error == ELOOP ? "it is a symbolic link"
                               : "cannot be opened: " + std::string(std::strerror(error)));
  struct stat& about = file.about;
  if (::fstat(file.fd.get(), &about) != 0) return fail(errno_error(errno, "cannot stat", name));
  if (!S_ISREG(about.st_mode)) return fail("it is " + kind_of_file(about.st_mode));
  if (const std::string forger = os::forger_of(file.fd.get()); !forger.empty())
    return fail("it is on a FUSE mount of " + forger + ": the author is unknown");
  file.author = os::user_name_of(about.st_uid);
  if (about.st_nlink != 1) return fail("it has several names: the author is unknown");
  if (static_cast<std::uint64_t>(about.st_size) > kLargest)
    return fail("it has " + std::to_string(about.st_size) + " bytes, 65536 at most");
  if (const std::string why = rights.why_not(about.st_uid, file.author); !why.empty())
    return fail(why);
  const bool shared = !rights.group.empty();
  if (shared && !was_made_in(folder, about))
    return fail("it does not belong to the group " + rights.group +
                ": it was moved here; make a new file in this folder");
  if (shared && !names_its_owner(file, name))
    file.author = "a member of the group " + rights.group + " (by a file of " + file.author + ")";
  file.is_shown = error == 0 && (!shared || (about.st_mode & S_IRGRP) != 0);
  return std::optional<SwitchFile>(std::move(file));
}

Result<wire::SwitchBody> read_switch_body(const SwitchFile& file, const std::string& name) {
  if (!file.is_shown) return wire::SwitchBody{"", "(its text is not readable for the group)", ""};
  std::string text(kLargest, '\0');
  const ssize_t got = ::pread(file.fd.get(), text.data(), text.size(), 0);
  if (got < 0) return fail("cannot be read: " + std::string(std::strerror(errno)));
  text.resize(static_cast<std::size_t>(got));
  if (const auto body = from_json_text<wire::SwitchBody>(text, name, {kLargest, 8}))
    return wire::SwitchBody{one_line(body->by, kLongestWord),
                            one_line(body->reason, kLongestReason),
                            one_line(body->until, kLongestWord)};
  return wire::SwitchBody{"", one_line(text, kLongestReason), ""};
}

bool is_member(uid_t user, gid_t group) {
  std::array<char, 16384> buffer{};
  passwd entry{};
  passwd* person = nullptr;
  if (::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &person) != 0 || person == nullptr)
    return false;
  std::vector<gid_t> groups(1024);
  int count = static_cast<int>(groups.size());
  if (::getgrouplist(entry.pw_name, entry.pw_gid, groups.data(), &count) < 0) return false;
  groups.resize(static_cast<std::size_t>(count));
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

}  // namespace stoker::watch
