// How many orders of another user a day has, by virtual time.
#include "watch/daily_budget.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::watch;

TEST_CASE("daily budget: one order a second -> 1000 of a user in 24 hours, and why not more") {
  DailyBudget budget;
  const WallTime start = parse_rfc3339("2026-03-01T12:00:00Z").value();
  std::size_t taken = 0;
  for (int second = 0; second < 86400; ++second)
    taken += budget.spend(1001, "alice", start + second * 1s) ? 0 : 1;
  CHECK(taken == 1000);
  CHECK_FALSE(budget.spend(1002, "bob", start + 5h));  // another user's day is another's
  const auto why = budget.spend(1001, "alice", start + 24h - 1s);
  REQUIRE(why);
  CHECK(*why ==
        "alice has given 1000 orders since 2026-03-01T12:00:00Z, the most in 24 hours: the next "
        "one is taken from 2026-03-02T12:00:00Z on");
  CHECK_FALSE(budget.spend(1001, "alice", start + 24h));
}

TEST_CASE("daily budget: a clock that was set back -> a new day, no user is kept out for longer") {
  DailyBudget budget(1);
  const WallTime start = parse_rfc3339("2026-03-01T12:00:00Z").value();
  CHECK_FALSE(budget.spend(1001, "alice", start));
  CHECK(budget.spend(1001, "alice", start));
  CHECK_FALSE(budget.spend(1001, "alice", start - 100h));
}
