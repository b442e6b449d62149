// Which file is new, what it becomes, and how many of them are taken.
#include "watch/switch_files.hpp"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "common/printable.hpp"
#include "watch/switch_folder.hpp"

namespace stoker::watch {

namespace {

constexpr std::size_t kMostFiles = 64;  // read in one poll
constexpr std::size_t kMostRefusals = 10;
constexpr Duration kRefusalWindow = 1min;
constexpr std::size_t kMostOrders = 10;  // of one user in a window, but of the daemon's own
constexpr Duration kBudgetWindow = 1min;
constexpr Duration kSettled = 200ms;

// The names that people type come first: "kill" and "KILL", then other spellings, then what is
// none.
int rank_of_name(const std::string& name) {
  if (!is_switch(name)) return 2;
  const bool mixed = name != lower_case(name) &&
                     std::any_of(name.begin(), name.end(), [](char c) { return c >= 'a'; });
  return mixed ? 1 : 0;
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
  return is_member(user, wanted.gr_gid);
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
  auto read = switch_names(folder.get());
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
  const Seen seen{about.st_ino, os::mtime_ns(about), static_cast<std::uint64_t>(about.st_size)};
  // Another file of the same name is another order.
  for (const auto* known : {&reported_, &refused_})
    if (const auto before = known->find(name); before != known->end() && before->second == seen)
      return;
  if (!is_switch(name))
    return refuse(name, seen,
                  "no such switch; there are save, stop, kill, pause, resume, restart, ack", wall,
                  out);
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
  auto opened = open_switch(folder, name, rights());
  if (!opened) return refuse(name, seen, opened.error().what, wall, out);
  if (!*opened) return;
  const SwitchFile& file = **opened;
  if (!has_budget(file.about.st_uid, wall)) return;  // it waits there for the next minute
  const auto read = read_switch_body(file, name);
  if (!read) return refuse(name, seen, read.error().what, wall, out);
  const wire::SwitchBody& body = *read;
  const std::string verb = lower_case(name);
  if (const auto why = why_not_today(file, verb, wall))
    return why->empty() ? void() : refuse(name, seen, *why, wall, out);
  reported_[name] = seen;
  unsettled_.erase(name);
  const core::Cursor cursor = cursor_of(name, seen);
  if (const auto before = before_.find(cursor.path); before != before_.end()) {
    const bool same = before->second == cursor;
    before_.erase(before);
    if (same) return;
  }
  core::OperatorAsked asked;
  asked.verb = verb;
  asked.arguments["file"] = name;
  if (!body.by.empty() && body.by != file.author) asked.arguments["claimed_by"] = body.by;
  if (!body.until.empty()) asked.arguments["until"] = body.until;
  asked.by = file.author;
  asked.reason = body.reason;
  asked.via = "switch file";
  out.push_back({options_.run, std::move(asked), {cursor}});
}

SwitchRights SwitchFiles::rights() const {
  const std::string& group = options_.group;
  const auto why_not = [&group](uid_t user, const std::string& name) -> std::string {
    const auto allowed = may_act(user, group);
    if (!allowed) return allowed.error().message();
    if (*allowed) return "";
    if (group.empty())
      return "its owner " + name + " is not the daemon's user, and no group is set";
    return "its owner " + name + " is not in the group " + group;
  };
  return {why_not, group};
}

// Orders of others are a few a minute: each is kept in the journal.
bool SwitchFiles::has_budget(uid_t author, WallTime wall) {
  if (author == ::geteuid()) return true;
  Budget& budget = budgets_[author];
  if (wall - budget.since >= kBudgetWindow || wall < budget.since) budget = {wall, 0};
  return budget.used++ < kMostOrders;
}

// What ends a run is never refused for what was ordered before.
std::optional<std::string> SwitchFiles::why_not_today(const SwitchFile& file,
                                                      const std::string& verb, WallTime wall) {
  const uid_t author = file.about.st_uid;
  if (author == ::geteuid()) return std::nullopt;
  auto why = day_.spend(author, file.author, wall);
  if (!why) return std::nullopt;
  if (verb != "kill" && verb != "stop")
    return *why + "; kill and stop are taken at any time, and its owner can do the rest";
  const auto [last, first] = urgent_.try_emplace({author, verb}, wall);
  if (!first && wall >= last->second && wall - last->second < kBudgetWindow) return "";
  last->second = wall;
  return std::nullopt;
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
  if (refusals_.spend(0, "", wall)) return;
  out.push_back({options_.run, core::SwitchRefused{printable(name.substr(0, 64)), why}, {cursor}});
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
