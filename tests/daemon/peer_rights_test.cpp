// Who belongs to a group: by its own list, and by a user's primary group alone.
#include "daemon/socket/peer_rights.hpp"

#include <algorithm>
#include <doctest/doctest.h>

using namespace stoker::daemon;

TEST_CASE("is_in_group: by the primary group alone, which no list has -> a member") {
  CHECK(is_in_group("root", "root"));  // /etc/group lists no user there
  CHECK_FALSE(is_in_group("nobody", "root"));
  CHECK_FALSE(is_in_group("root", "no-such-group"));
  CHECK_FALSE(is_in_group("no-such-user", "root"));
  CHECK_FALSE(is_in_group("", ""));
}

TEST_CASE("group_members: whose primary group it is -> listed too, once") {
  const auto members = group_members("root");
  CHECK(std::count(members.begin(), members.end(), "root") == 1);
  CHECK(std::count(members.begin(), members.end(), "nobody") == 0);
  CHECK(group_members("no-such-group").empty());
}
