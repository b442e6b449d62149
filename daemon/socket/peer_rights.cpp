// PeerRights over getpwuid_r, getgrouplist and getgrnam_r.
#include "daemon/socket/peer_rights.hpp"

#include <algorithm>
#include <grp.h>
#include <mutex>
#include <pwd.h>
#include <unistd.h>

namespace stoker::daemon {
namespace {

constexpr Duration kRemembered = 60s;
constexpr std::size_t kMostUsers = 1000;
constexpr std::size_t kRecord = 65536;  // a group of thousands of members
constexpr std::size_t kMostListed = 100'000;
constexpr double kBurst = 30, kEachSecond = 1;  // requests of a colleague

std::vector<gid_t> groups_of(const passwd& user) {
  int count = 1024;
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  if (::getgrouplist(user.pw_name, user.pw_gid, groups.data(), &count) < 0) return {user.pw_gid};
  groups.resize(static_cast<std::size_t>(count));
  return groups;
}

}  // namespace

std::optional<gid_t> group_id(const std::string& group) {
  std::vector<char> buffer(kRecord * 4);
  struct group record {};
  struct group* found = nullptr;
  if (::getgrnam_r(group.c_str(), &record, buffer.data(), buffer.size(), &found) != 0 ||
      found == nullptr)
    return std::nullopt;
  return record.gr_gid;
}

std::vector<std::string> group_members(const std::string& group) {
  std::vector<char> buffer(kRecord * 4), entry(kRecord);
  struct group record {};
  struct group* found = nullptr;
  std::vector<std::string> names;
  if (::getgrnam_r(group.c_str(), &record, buffer.data(), buffer.size(), &found) != 0 ||
      found == nullptr)
    return names;
  for (char** name = record.gr_mem; *name != nullptr && names.size() < kMostUsers; ++name) {
    passwd person{};
    passwd* known = nullptr;
    if (::getpwnam_r(*name, &person, entry.data(), entry.size(), &known) == 0 && known != nullptr)
      names.emplace_back(*name);
  }
  static std::mutex listing;  // one position in the list for the whole process
  const std::scoped_lock lock(listing);
  ::setpwent();
  passwd person{};
  passwd* next = nullptr;
  for (std::size_t i = 0; i < kMostListed && names.size() < kMostUsers &&
                          ::getpwent_r(&person, entry.data(), entry.size(), &next) == 0 && next;
       ++i)
    if (next->pw_gid == record.gr_gid &&
        std::find(names.begin(), names.end(), next->pw_name) == names.end())
      names.emplace_back(next->pw_name);
  ::endpwent();
  return names;
}

bool is_in_group(const std::string& user, const std::string& group) {
  const auto wanted = group_id(group);
  std::vector<char> buffer(kRecord);
  passwd record{};
  passwd* found = nullptr;
  if (!wanted || ::getpwnam_r(user.c_str(), &record, buffer.data(), buffer.size(), &found) != 0 ||
      found == nullptr)
    return false;
  const auto groups = groups_of(record);
  return std::find(groups.begin(), groups.end(), *wanted) != groups.end();
}

bool we_belong_to(gid_t group) {
  if (::geteuid() == 0 || ::getegid() == group) return true;
  std::vector<gid_t> groups(65536);  // NGROUPS_MAX of Linux
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(0, count)));
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

const PeerRights::User& PeerRights::look_up(uid_t uid) {
  if (const auto known = users_.find(uid);
      known != users_.end() && monotonic_now() - known->second.asked < kRemembered)
    return known->second;
  if (users_.size() >= kMostUsers) users_.clear();
  User user{monotonic_now(), "uid " + std::to_string(uid), {}};
  std::vector<char> buffer(kRecord);
  passwd record{};
  passwd* found = nullptr;
  if (::getpwuid_r(uid, &record, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    user.name = record.pw_name;
    user.groups = groups_of(record);
  }
  return users_[uid] = std::move(user);
}

std::string PeerRights::name_of(uid_t uid) {
  return look_up(uid).name;
}

bool PeerRights::has_patience_for(const Peer& peer, Instant now) {
  if (peer.uid == 0 || peer.uid == ::geteuid()) return true;
  if (paces_.size() >= kMostUsers && !paces_.contains(peer.uid)) paces_.clear();
  const auto [pace, fresh] = paces_.try_emplace(peer.uid, Pace{kBurst, now});
  const double earned = fresh ? 0 : to_seconds(now - pace->second.at) * kEachSecond;
  pace->second = {std::min(kBurst, pace->second.left + earned), now};
  if (pace->second.left < 1) return false;
  pace->second.left -= 1;
  return true;
}

// The user database says who is a member; the kernel's group of the peer does not. That group stays
// with a shell from newgrp(1), and a setgid copy of a program gives it to any user, for as long as
// the file lies there. A user namespace lends a person many uids that no user has, with the
// person's groups (subuid(5)): they are no members, each would have a pace of its own.
bool PeerRights::may_act(const Peer& peer, const std::string& group) {
  if (peer.uid == 0 || peer.uid == ::geteuid()) return true;
  if (group.empty()) return false;
  const auto wanted = group_id(group);
  if (!wanted) return false;
  const auto& groups = look_up(peer.uid).groups;
  return std::find(groups.begin(), groups.end(), *wanted) != groups.end();
}

}  // namespace stoker::daemon
