// Five-field cron lines as Debian's cron reads them (crontab(5), cron 3.0pl1).
#include "slurm/crontab.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::slurm;

namespace {

std::tm at(int month, int day, int weekday, int hour, int minute) {
  std::tm t{};
  t.tm_mon = month - 1;
  t.tm_mday = day;
  t.tm_wday = weekday;
  t.tm_hour = hour;
  t.tm_min = minute;
  return t;
}
bool due(const char* line, const std::tm& t) {
  const auto parsed = parse_cron_line(line);
  REQUIRE_MESSAGE(parsed, line);
  return is_due(*parsed, t);
}

}  // namespace

TEST_CASE("cron: steps, ranges, lists, names -> due in their minutes") {
  CHECK(due("*/15 * * * * x", at(1, 1, 3, 7, 45)));
  CHECK(!due("*/15 * * * * x", at(1, 1, 3, 7, 46)));
  CHECK(due("5 8-18/2 * * * x", at(1, 1, 3, 10, 5)));
  CHECK(!due("5 8-18/2 * * * x", at(1, 1, 3, 11, 5)));
  CHECK(due("0,30 4 * Jan-MAR mon x", at(2, 9, 1, 4, 30)));
  CHECK(!due("0,30 4 * Jan-MAR mon x", at(4, 6, 1, 4, 30)));
  CHECK(due("0 0 * * 7 x", at(1, 4, 0, 0, 0)));
  CHECK(due("@daily x", at(6, 6, 6, 0, 0)));
  CHECK(!due("@daily x", at(6, 6, 6, 1, 0)));
}

TEST_CASE("cron: both day fields restricted -> either is enough; one of them * -> both") {
  CHECK(due("0 0 13 * 5 x", at(3, 13, 2, 0, 0)));
  CHECK(due("0 0 13 * 5 x", at(3, 6, 5, 0, 0)));
  CHECK(!due("0 0 13 * 5 x", at(3, 6, 4, 0, 0)));
  CHECK(!due("0 0 13 * * x", at(3, 6, 5, 0, 0)));
  CHECK(!due("0 0 */2 * 5 x", at(3, 3, 4, 0, 0)));  // begins with *: both must match
}

TEST_CASE("cron: percent signs -> the command ends there, a backslash keeps it") {
  CHECK(parse_cron_line("* * * * * date +\\%F %stdin")->command == "date +%F ");
}

TEST_CASE("cron: bad lines -> errors that say what is wrong") {
  for (const char* line : {"60 * * * * x", "* 24 * * * x", "* * 0 * * x", "* * * 13 * x",
                           "* * * * 8 x", "* * * *", "* * * * *", "5/2 * * * * x", "9-5 * * * * x",
                           "*/0 * * * * x", "@reboot x", "@never x", "a * * * * x", ", * * * * x"})
    CHECK_MESSAGE(!parse_cron_line(line), line);
}

TEST_CASE("cron: a crontab over a span -> each due command once, settings and comments skipped") {
  const auto commands = due_commands(
      "# maintenance\nSHELL=/bin/bash\nMAILTO = root\n\n* * * * * often\n@yearly never\n  */5 * * "
      "* * "
      "five\n",
      1700000000, 1700000600);
  REQUIRE(commands);
  CHECK(*commands == std::vector<std::string>{"often", "five"});
  CHECK(due_commands("* * * * * x\n", 1700000001, 1700000030)->empty());
  const auto bad = due_commands("* * * * * x\n\n61 * * * * y\n", 0, 1700000000);
  REQUIRE(!bad);
  CHECK(bad.error().what.starts_with("line 3: 61 is no minute"));
}
