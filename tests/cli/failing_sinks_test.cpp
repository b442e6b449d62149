// What `doctor` makes of a sink that does not deliver.
#include "cli/doctor/failing_sinks.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::cli;

TEST_CASE("failing sinks: an alert not taken, or a minute of failures -> bad; before -> a note") {
  const WallTime now{std::chrono::seconds(1651377371)};
  wire::FailingSink sink{"tr11",       "page", "pagerduty", format_rfc3339(now - 30s),
                         "answer 503", 2,      {}};
  CHECK(judge_sink(sink, now).health == Health::Note);
  CHECK(judge_sink(sink, now + 30s).health == Health::Bad);
  sink.lost = {"CRITICAL tr11 is on hold"};
  const Finding finding = judge_sink(sink, now);
  CHECK(finding.health == Health::Bad);
  CHECK(finding.found ==
        "sink page (pagerduty) of tr11 does not deliver since 2022-05-01T03:55:41Z: answer 503; "
        "not taken: CRITICAL tr11 is on hold");
}

TEST_CASE("failing sinks: hostile words of a receiver -> one printable line") {
  const wire::FailingSink sink{"r", "s", "webhook", "yesterday", "a\n\x1b[2Jb", 1, {}};
  const std::string line = failing_line(sink);
  CHECK(line.find('\n') == std::string::npos);
  CHECK(line.find('\x1b') == std::string::npos);
  CHECK(judge_sink(sink, WallTime{}).health == Health::Bad);
}
