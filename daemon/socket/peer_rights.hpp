// Who may act: root, the daemon's own user, and members of the run's unix group, as the user
// database has them. That can be slow (LDAP): its answers are kept for a minute.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/time.hpp"
#include "daemon/socket/line_server.hpp"

namespace stoker::daemon {

class PeerRights {
 public:
  // The name of the user as the kernel reported it: "alice", or "uid 1234".
  std::string name_of(uid_t uid);
  // May this peer act on a run of `group` ("" = of the daemon's user alone)?
  bool may_act(const Peer& peer, const std::string& group);
  // Whether this peer may ask once more: others than root and the daemon's user have 30 requests,
  // and one more each second. Each is a row of the journal, and theirs is not the disk.
  bool has_patience_for(const Peer& peer, Instant now);

 private:
  struct Pace {
    double left = 0;
    Instant at;
  };
  struct User {
    Instant asked;
    std::string name;
    std::vector<gid_t> groups;  // none: the user database does not know the user
  };
  const User& look_up(uid_t uid);
  std::map<uid_t, User> users_;
  std::map<uid_t, Pace> paces_;
};

// Is this process's user a member of the group (or root)?
bool we_belong_to(gid_t group);

// The group's id, or empty when there is no such group.
std::optional<gid_t> group_id(const std::string& group);
// May ask a directory service: block. The login names of a group's members that this host can list:
// the group's own list, and whose primary group it is (not where the service lists no users).
std::vector<std::string> group_members(const std::string& group);
// Whether this user belongs to the group, in any way.
bool is_in_group(const std::string& user, const std::string& group);

}  // namespace stoker::daemon
