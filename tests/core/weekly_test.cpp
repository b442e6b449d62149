// When a weekly digest is due: by virtual clocks and time zones.
#include "core/publish/weekly.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::core;

namespace {

WallTime at(const char* text) {
  return *parse_rfc3339(text);
}

std::string due(const DigestRule& rule, const char* wall, Duration offset = {}) {
  return format_rfc3339(last_due(rule, at(wall), offset)).substr(0, 16);
}

RunState run_with(const DigestRule& rule, const char* last) {
  RunState run;
  run.policy.alerts.digest = rule;
  if (*last != '\0') run.accounting.weekly.due = at(last);
  return run;
}

const DigestRule kMonday{1, 9 * 60, true, {"mail"}};

}  // namespace

TEST_CASE("weekly: the last hour of the rule -> not after now, never more than a week ago") {
  CHECK(due(kMonday, "2026-05-04T09:00:00Z") == "2026-05-04T09:00");  // a Monday
  CHECK(due(kMonday, "2026-05-04T08:59:59Z") == "2026-04-27T09:00");
  CHECK(due(kMonday, "2026-05-10T23:00:00Z") == "2026-05-04T09:00");
  const DigestRule sunday{0, 0, true, {}}, saturday{6, 24 * 60 - 1, true, {}};
  CHECK(due(sunday, "2026-05-03T00:00:00Z") == "2026-05-03T00:00");
  CHECK(due(saturday, "2026-05-03T00:00:00Z") == "2026-05-02T23:59");
}

TEST_CASE("weekly: a local hour -> by the offset, over the edge of the week too") {
  const DigestRule local{1, 30, false, {}};  // Monday 00:30
  CHECK(due(local, "2026-05-03T22:30:00Z", 2h) == "2026-05-03T22:30");
  CHECK(due(local, "2026-05-03T22:29:59Z", 2h) == "2026-04-26T22:30");
  CHECK(due(local, "2026-05-04T05:30:00Z", -5h) == "2026-05-04T05:30");
  CHECK(due(kMonday, "2026-05-04T09:00:00Z", 2h) == "2026-05-04T09:00");  // utc: true
}

TEST_CASE("weekly: due -> once a week; moved hours and summer time make no second one") {
  CHECK(weekly_due(run_with(kMonday, ""), at("2026-05-05T00:00:00Z"), {}) ==
        at("2026-05-04T09:00:00Z"));
  const RunState made = run_with(kMonday, "2026-05-04T09:00:00Z");
  CHECK_FALSE(weekly_due(made, at("2026-05-04T09:00:10Z"), {}));
  CHECK_FALSE(weekly_due(made, at("2026-05-11T08:59:59Z"), {}));
  CHECK(weekly_due(made, at("2026-05-11T09:00:00Z"), {}) == at("2026-05-11T09:00:00Z"));
  CHECK(weekly_due(made, at("2026-06-03T09:00:00Z"), {}) == at("2026-06-01T09:00:00Z"));  // away
  const DigestRule wednesday{3, 9 * 60, true, {}};
  CHECK_FALSE(
      weekly_due(run_with(wednesday, "2026-05-04T09:00:00Z"), at("2026-05-06T10:00:00Z"), {}));
  const DigestRule local{
      0, 4 * 60, false, {}};  // made at 04:00 of winter time, seen in summer time
  CHECK_FALSE(weekly_due(run_with(local, "2026-03-29T03:00:00Z"), at("2026-03-29T05:00:00Z"), 2h));
  CHECK_FALSE(weekly_due(RunState{}, at("2026-05-05T00:00:00Z"), {}));  // no rule
}

TEST_CASE("weekly: a clock that was years ahead -> the next hour is due again") {
  CHECK(weekly_due(run_with(kMonday, "2036-05-05T09:00:00Z"), at("2026-05-05T00:00:00Z"), {}));
  // Set back by an hour over the moment itself: it was made.
  CHECK_FALSE(
      weekly_due(run_with(kMonday, "2026-05-04T09:00:00Z"), at("2026-05-04T08:30:00Z"), {}));
}
