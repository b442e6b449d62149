// Listing the folder, judging each file, reading its body.
#include "watch/switch_files.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <memory>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/printable.hpp"
#include "wire/control.hpp"

namespace stoker::watch {

namespace {

constexpr std::size_t kLargest = 64u << 10;
constexpr std::size_t kLongestReason = 500;
constexpr std::size_t kMostFiles = 64;      // read in one poll
constexpr std::size_t kMostNames = 10'000;  // read of the folder; the plain names are looked for
constexpr std::size_t kMostRefusals = 10;
constexpr Duration kRefusalWindow = 1min;
constexpr std::size_t kMostOrders = 10;  // of one user in a window, but of the daemon's own
constexpr Duration kBudgetWindow = 1min;
constexpr Duration kSettled = 200ms;
constexpr std::array<std::string_view, 6> kVerbs{"save",  "stop",   "kill",
                                                 "pause", "resume", "restart"};

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

bool is_switch(const std::string& name) {
  return std::find(kVerbs.begin(), kVerbs.end(), lower(name)) != kVerbs.end();
}

// The names that people type come first: "kill" and "KILL", then other spellings, then what is
// none.
int rank_of_name(const std::string& name) {
  if (!is_switch(name)) return 2;
  const bool mixed =
      name != lower(name) && std::any_of(name.begin(), name.end(), [](char c) { return c >= 'a'; });
  return mixed ? 1 : 0;
}

// Names in the folder, sorted, without hidden ones. "kill" and "KILL" are among them however much
// lies beside them. Empty: it could not be read.
std::optional<std::vector<std::string>> names_in(int folder) {
  std::set<std::string> names;
  const auto upper = [](std::string_view text) {
    std::string all(text);
    for (char& c : all) c = static_cast<char>(c - 'a' + 'A');
    return all;
  };
  struct stat about {};
  for (const std::string_view verb : kVerbs)
    for (const std::string& name : {std::string(verb), upper(verb)})
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

// One line that people read.
std::string one_line(std::string_view text, std::size_t limit) {
  std::string out = printable(text.substr(0, limit));
  while (!out.empty() && out.back() == ' ') out.pop_back();
  while (!out.empty() && out.front() == ' ') out.erase(out.begin());
  return out;
}

// The body: JSON {by, reason, until}, or free text, which is the reason.
wire::SwitchBody parse_body(const std::string& text, const std::string& name) {
  if (const auto body = from_json_text<wire::SwitchBody>(text, name, {kLargest, 8})) {
    return {one_line(body->by, 64), one_line(body->reason, kLongestReason),
            one_line(body->until, 64)};
  }
  return {"", one_line(text, kLongestReason), ""};
}

std::string kind_of_file(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

Result<bool> may_act(uid_t user, const std::string& group) {
  if (user == ::geteuid()) return true;
  if (group.empty()) return false;
  std::vector<char> group_buffer(256u << 10);
  struct group wanted {};
  struct group* found = nullptr;
  const int error =
      ::getgrnam_r(group.c_str(), &wanted, group_buffer.data(), group_buffer.size(), &found);
  if (found == nullptr)
    return error == 0 ? fail("no such group", group)
                      : fail(errno_error(error, "cannot look up the group", group));
  std::array<char, 16384> buffer{};
  passwd entry{};
  passwd* person = nullptr;
  if (::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &person) != 0 || person == nullptr)
    return false;
  std::vector<gid_t> groups(1024);
  int count = static_cast<int>(groups.size());
  if (::getgrouplist(entry.pw_name, entry.pw_gid, groups.data(), &count) < 0) return false;
  groups.resize(static_cast<std::size_t>(count));
  return std::find(groups.begin(), groups.end(), wanted.gr_gid) != groups.end();
}

SwitchFiles::SwitchFiles(SwitchOptions options, const std::vector<core::Cursor>& cursors)
    : options_(std::move(options)) {
  for (const auto& cursor : cursors)
    if (cursor.path.starts_with(options_.directory + "/")) before_[cursor.path] = cursor;
}

void SwitchFiles::poll(WallTime wall, std::vector<core::Input>& out) {
  const os::Fd folder(
      ::open(options_.directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return;
  auto read = names_in(folder.get());
  if (!read) return;
  std::vector<std::string>& names = *read;
  if (names.size() > kMostFiles) {
    std::stable_sort(names.begin(), names.end(), [](const auto& a, const auto& b) {
      return rank_of_name(a) < rank_of_name(b);
    });
    names.resize(kMostFiles);
    std::sort(names.begin(), names.end());
  }
  const auto is_gone = [&names](const auto& entry) {
    return !std::binary_search(names.begin(), names.end(), entry.first);
  };
  std::erase_if(reported_, is_gone);
  std::erase_if(unsettled_, is_gone);
  std::erase_if(refused_, is_gone);
  for (const auto& name : names) look_at(folder.get(), name, wall, out);
}

void SwitchFiles::look_at(int folder, const std::string& name, WallTime wall,
                          std::vector<core::Input>& out) {
  struct stat about {};
  if (::fstatat(folder, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) return;
  const Seen seen{about.st_ino, about.st_mtim.tv_sec * 1'000'000'000 + about.st_mtim.tv_nsec,
                  static_cast<std::uint64_t>(about.st_size)};
  // Another file of the same name is another order.
  for (const auto* known : {&reported_, &refused_})
    if (const auto before = known->find(name); before != known->end() && before->second == seen)
      return;
  if (!is_switch(name))
    return refuse(name, seen, "no such switch; there are save, stop, kill, pause, resume, restart",
                  wall, out);
  const bool old = wall.time_since_epoch().count() - seen.changed >= kSettled.count();
  const auto unsettled = unsettled_.find(name);
  if (!old && (unsettled == unsettled_.end() || unsettled->second != seen)) {
    unsettled_[name] = seen;
    return;
  }
  tell(folder, name, seen, wall, out);
}

void SwitchFiles::tell(int folder, const std::string& name, const Seen& seen, WallTime wall,
                       std::vector<core::Input>& out) {
  const os::Fd file(
      ::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (!file) {
    const int error = errno;
    if (error == ENOENT) return;
    return refuse(name, seen,
                  error == ELOOP ? "it is a symbolic link"
                                 : "cannot be opened: " + std::string(std::strerror(error)),
                  wall, out);
  }
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return;
  if (!S_ISREG(about.st_mode))
    return refuse(name, seen, "it is " + kind_of_file(about.st_mode), wall, out);
  const std::string author = os::user_name_of(about.st_uid);
  if (about.st_nlink != 1)
    return refuse(name, seen, "it has several names: the author is unknown", wall, out);
  if (static_cast<std::uint64_t>(about.st_size) > kLargest)
    return refuse(name, seen, "it has " + std::to_string(about.st_size) + " bytes, 65536 at most",
                  wall, out);
  const auto allowed = may_act(about.st_uid, options_.group);
  if (!allowed) return refuse(name, seen, allowed.error().message(), wall, out);
  if (!*allowed)
    return refuse(name, seen,
                  options_.group.empty()
                      ? "its owner " + author + " is not the daemon's user, and no group is set"
                      : "its owner " + author + " is not in the group " + options_.group,
                  wall, out);
  if (const std::string why = why_not_made_here(folder, about); !why.empty())
    return refuse(name, seen, why, wall, out);
  if (!has_budget(about.st_uid, wall)) return;  // it waits there for the next minute
  std::string text(kLargest, '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  if (got < 0)
    return refuse(name, seen, "cannot be read: " + std::string(std::strerror(errno)), wall, out);
  text.resize(static_cast<std::size_t>(got));
  reported_[name] = seen;
  unsettled_.erase(name);
  const core::Cursor cursor = cursor_of(name, seen);
  if (const auto before = before_.find(cursor.path); before != before_.end()) {
    const bool same = before->second == cursor;
    before_.erase(before);
    if (same) return;
  }
  const bool may_be_shown = options_.group.empty() || (about.st_mode & S_IRGRP) != 0;
  const wire::SwitchBody body =
      may_be_shown ? parse_body(text, name)
                   : wire::SwitchBody{"", "(its text is not readable for the group)", ""};
  core::OperatorAsked asked;
  asked.verb = lower(name);
  asked.arguments["file"] = name;
  if (!body.by.empty() && body.by != author) asked.arguments["claimed_by"] = body.by;
  if (!body.until.empty()) asked.arguments["until"] = body.until;
  asked.by = author;
  asked.reason = body.reason;
  asked.via = "switch file";
  out.push_back({options_.run, std::move(asked), {cursor}});
}

// Who may rename files in some folder of another user can move one of them here: it is no order of
// its owner. What is made here belongs to the folder's group, as the folder is setgid.
std::string SwitchFiles::why_not_made_here(int folder, const struct stat& file) const {
  struct stat here {};
  if (options_.group.empty() || (::fstat(folder, &here) == 0 && here.st_gid == file.st_gid))
    return "";
  return "it does not belong to the group " + options_.group +
         ": it was moved here; make a new file in this folder";
}

// Orders of others are a few a minute: each is kept in the journal.
bool SwitchFiles::has_budget(uid_t author, WallTime wall) {
  if (author == ::geteuid()) return true;
  Budget& budget = budgets_[author];
  if (wall - budget.since >= kBudgetWindow || wall < budget.since) budget = {wall, 0};
  return budget.used++ < kMostOrders;
}

void SwitchFiles::refuse(const std::string& name, const Seen& seen, const std::string& why,
                         WallTime wall, std::vector<core::Input>& out) {
  refused_[name] = seen;
  unsettled_.erase(name);
  if (wall - window_ >= kRefusalWindow || wall < window_) {
    window_ = wall;
    said_ = 0;
  }
  if (said_ >= kMostRefusals) return;
  const core::Cursor cursor = cursor_of(name, seen);
  if (const auto before = before_.find(cursor.path);
      before != before_.end() && before->second == cursor)
    return;
  ++said_;
  out.push_back({options_.run, core::SwitchRefused{one_line(name, 64), why}, {cursor}});
}

core::Cursor SwitchFiles::cursor_of(const std::string& name, const Seen& seen) const {
  core::Cursor cursor;
  cursor.path = options_.directory + "/" + name;
  cursor.inode = seen.inode;
  cursor.head_hash = xxh3_64(std::to_string(seen.changed) + "," + std::to_string(seen.size));
  cursor.offset = 1;
  return cursor;
}

}  // namespace stoker::watch
