// Partitions and reservations as the real commands print them: 20.11.4, 22.05.8 and 24.11.5 print
// the same form (names of users were changed).
#include "slurm/calendar.hpp"

#include <doctest/doctest.h>

#include "core/supply/calendar.hpp"

using namespace stoker;
using namespace stoker::slurm;

namespace {

constexpr const char* kReservations =
    "ReservationName=camp StartTime=1795828998 EndTime=1795832598 Duration=01:00:00 Nodes=n[01-02] "
    "NodeCnt=2 CoreCnt=8 Features=(null) PartitionName=(null) Flags=SPEC_NODES TRES=cpu=8 "
    "Users=alice Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) "
    "Watts=n/a MaxStartDelay=(null)\n"
    "ReservationName=maint StartTime=1795836198 EndTime=1795846998 Duration=03:00:00 "
    "Nodes=n[01-08] "
    "NodeCnt=8 CoreCnt=32 Features=(null) PartitionName=(null) "
    "Flags=MAINT,IGNORE_JOBS,SPEC_NODES,ALL_NODES TRES=cpu=32 Users=root Groups=(null) "
    "Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a "
    "MaxStartDelay=(null)\n"
    "ReservationName=lic StartTime=1795836198 EndTime=1795846998 Duration=03:00:00 Nodes=(null) "
    "NodeCnt=0 CoreCnt=0 Features=(null) PartitionName=(null) Flags=ANY_NODES TRES=(null) "
    "Users=root Groups=(null) Accounts=(null) Licenses=matlab:2 State=INACTIVE BurstBuffer=(null) "
    "MaxStartDelay=(null)\n";

WallTime second(std::int64_t s) {
  return WallTime(std::chrono::seconds(s));
}

core::CalendarSeen calendar() {
  core::CalendarSeen seen;
  seen.partitions = {{"main", true, "n[01-08]"}, {"gpu", false, "n[01-04]"}};
  seen.reservations = *parse_reservations(kReservations);
  return seen;
}

bool all(const NodeName&) {
  return true;
}

}  // namespace

TEST_CASE(
    "calendar: reservations of the real commands -> names, nodes and times; licences alone none") {
  const auto found = parse_reservations(kReservations);
  REQUIRE(found.has_value());
  REQUIRE(found->size() == 2);
  CHECK((*found)[0].name == "camp");
  CHECK((*found)[0].nodes == "n[01-02]");
  CHECK((*found)[0].from == second(1795828998));
  CHECK((*found)[1].name == "maint");
  CHECK((*found)[1].until == second(1795846998));
  CHECK(parse_reservations("No reservations in the system\n")->empty());
}

TEST_CASE("calendar: half an answer, another one, no times -> an error, never fewer nodes") {
  CHECK_FALSE(parse_reservations("").has_value());
  CHECK_FALSE(parse_reservations("ReservationName=camp StartTime=17958").has_value());
  CHECK_FALSE(parse_reservations("slurm_load_reservations error\n").has_value());
  CHECK_FALSE(
      parse_reservations("ReservationName=a StartTime=soon EndTime=5 Nodes=n1\n").has_value());
  CHECK_FALSE(
      parse_reservations("ReservationName=a StartTime=1 EndTime=5 Nodes=n[1-\n").has_value());
  CHECK_FALSE(parse_reservations("ReservationName=a StartTime=1 EndTime=99999999999 Nodes=n1\n")
                  .has_value());
}

TEST_CASE("calendar: sinfo's nodes and partitions -> a host list each, the default marked") {
  const auto found = parse_partitions(
      "n01\x1fmain*\nn01\x1fservice\nn02\x1fmain*\nn02\x1fservice\nn03\x1fmain*\n");
  REQUIRE(found.has_value());
  REQUIRE(found->size() == 2);
  CHECK((*found)[0].name == "main");
  CHECK((*found)[0].by_default);
  CHECK((*found)[0].nodes == "n[01-03]");
  CHECK((*found)[1].name == "service");
  CHECK_FALSE((*found)[1].by_default);
  CHECK_FALSE(parse_partitions("n01\x1fmain*\nn02").has_value());
  CHECK_FALSE(parse_partitions("n01 main\n").has_value());
  CHECK_FALSE(parse_partitions("weird name\x1fmain*\n").has_value());
}

TEST_CASE(
    "calendar: nodes for a job -> its partition's, without others' reservations, or its own") {
  using namespace core::supply;
  core::SchedulerPolicy policy;
  const auto between = [&](std::int64_t from, std::int64_t until) {
    return nodes_between(calendar(), policy, all, second(from), second(until));
  };
  CHECK(between(1795820000, 1795828998) == 8);  // until the moment it begins
  CHECK(between(1795820000, 1795828999) == 6);
  CHECK(between(1795832598, 1795836198) == 8);
  CHECK(between(1795836198, 1795836199) == 0);
  policy.partition = "gpu";
  CHECK(between(1795820000, 1795828999) == 2);
  policy.extra = {"--hint=nomultithread", "--reservation=camp"};
  CHECK(between(1795828998, 1795828999) == 2);
  CHECK(between(1795832598, 1795836198) == 4);  // it is over
  policy.partition = "none";
  CHECK_FALSE(between(1795820000, 1795828999).has_value());
}

TEST_CASE("calendar: own reservations -> of both forms of the option; over when none is to come") {
  using namespace core::supply;
  core::SchedulerPolicy policy;
  CHECK_FALSE(all_over(calendar(), policy, second(1795900000)));
  policy.extra = {"--reservation", "camp,next"};
  CHECK(own_reservations(policy) == std::vector<std::string>{"camp", "next"});
  CHECK(own_end(calendar(), policy, second(1795828000)) == second(1795832598));
  CHECK_FALSE(all_over(calendar(), policy, second(1795832597)));
  CHECK(all_over(calendar(), policy, second(1795832598)));
}

TEST_CASE("calendar: an offer -> whole, else shorter while that is worth it, else smaller") {
  using namespace core::supply;
  core::SchedulerPolicy policy;
  policy.time_limit = 10h;
  policy.nodes_allowed = {2, 4, 6};
  core::CalendarSeen seen = calendar();
  seen.reservations = {{"maint", "n[05-08]", second(100'000), second(200'000)}};
  const auto at = [&](std::int64_t now, std::uint32_t active) {
    return offer_at(seen, policy, all, active, 1h, second(now));
  };
  CHECK(at(0, 6).limit == 10h);
  CHECK(at(80'000, 6).active == 6);
  CHECK(at(80'000, 6).limit == 5h);  // 20,000 s, less a tenth
  CHECK(at(98'000, 6).active == 4);
  CHECK(at(98'000, 6).limit == 10h);
  CHECK(at(98'000, 4).limit == 10h);
  CHECK(at(150'000, 6).active == 4);
  CHECK(at(200'000, 6).active == 6);
  policy.nodes_allowed.clear();
  CHECK(at(150'000, 6).active == 6);  // it waits
}

TEST_CASE("calendar: windows -> one for each time in which the same nodes are there") {
  using namespace core::supply;
  core::SchedulerPolicy policy;
  policy.nodes_allowed = {6};
  const auto windows = windows_of(calendar(), policy, all, 8, second(1795820000));
  REQUIRE(windows.size() == 5);
  CHECK(windows[0].usable == 8);
  CHECK(windows[1].usable == 6);
  CHECK(windows[1].size == 6);
  CHECK(windows[1].reservations == std::vector<std::string>{"camp"});
  CHECK(windows[3].usable == 0);
  CHECK(windows[3].size == 8);  // no size fits: it waits
  CHECK_FALSE(windows[4].until.has_value());
}
