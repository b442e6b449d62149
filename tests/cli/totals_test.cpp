// One incident, one account: status, top, report, chronicle, digest and metrics give the same
// figures.
#include <fmt/format.h>
#include <re2/re2.h>

#include "story.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;

namespace {

const std::string kStory = STOKER_SOURCE_DIR "/tests/golden/incident_costs.txt";

double number_behind(const std::string& text, const std::string& words) {
  std::string found;
  const bool there = RE2::PartialMatch(text, RE2::QuoteMeta(words) + " ([0-9.e+-]+)", &found);
  REQUIRE_MESSAGE(there, words);
  return std::stod(found);
}

}  // namespace

TEST_CASE("totals: one incident -> the same cost in every command that shows it") {
  const Site site;
  std::string digest;
  publish_story(site, kStory, &digest);
  const auto status =
      from_json_text<wire::StatusDocument>(site.stoker({"status", "demo", "--json"}).out, "status");
  REQUIRE(status.has_value());
  REQUIRE(status->goodput.has_value());
  const wire::StatusGoodput& account = *status->goodput;
  REQUIRE(account.incidents.size() == 1);
  const std::string cost = fmt::format("{:.2f} GPU hours", account.incidents.front().gpu_hours);
  const std::string total = fmt::format("{:.2f} GPU hours", account.lost_gpu_hours);
  CHECK(cost != "0.00 GPU hours");

  const std::string chronicle = site.stoker({"chronicle", "demo"}).out;
  CHECK(chronicle.find("Lost: 20 iterations to repeat, 2min 10s; " + cost +
                       " with what was repeated.") != std::string::npos);
  CHECK(chronicle.find("* crashes of ranks: 1 x, " + cost + "\n") != std::string::npos);
  const std::string report = site.stoker({"report", "demo"}).out;
  CHECK(report.find("; " + cost + ", 20 iterations repeated") != std::string::npos);
  CHECK(report.find("<dt>lost</dt><dd>" + total + "</dd>") != std::string::npos);
  const std::string text = site.stoker({"status", "demo"}).out;
  CHECK(text.find("; " + total + " lost") != std::string::npos);
  CHECK(text.find("rank crash (1 x) " + cost) != std::string::npos);
  CHECK(digest.find("Lost: " + total + ": ") != std::string::npos);
  CHECK(digest.find(cost + ", 20 iterations repeated") != std::string::npos);
  double seconds = 0;
  const std::string metrics = site.stoker({"metrics"}).out;
  for (const wire::StatusCost& cause : account.causes)
    seconds += number_behind(
        metrics, "stoker_run_lost_gpu_seconds_total{run=\"demo\",cause=\"" + cause.cause + "\"}");
  CHECK(seconds == doctest::Approx(account.lost_gpu_hours * 3600).epsilon(0.001));
}

TEST_CASE("totals: an incident of the last day -> in status and top, with what has to be done") {
  const Site site;
  publish_story(site, kStory);
  const std::string path = site.directory() + "/status.json";
  auto status = from_json_text<wire::StatusDocument>(site.read(path), "status").value();
  const WallTime now = wall_now();
  status.published = format_rfc3339(now);
  status.goodput->incidents.front().time = format_rfc3339(now - 5min);
  site.write(path, to_json_text(status));
  const std::string cost =
      fmt::format("{:.2f} GPU hours", status.goodput->incidents.front().gpu_hours);
  for (const auto& command : {std::vector<std::string>{"status", "demo"}, {"top", "--once"}}) {
    const auto said = site.stoker(command, {{"COLUMNS", "160"}, {"LINES", "40"}});
    CHECK(said.out.find("to do       nothing: no alert is open\n") != std::string::npos);
    CHECK(said.out.find("incident    rank crash 5min") != std::string::npos);
    CHECK(said.out.find("20 iterations repeated, " + cost) != std::string::npos);
  }
  status.goodput->incidents.front().time = format_rfc3339(now - 25h);
  site.write(path, to_json_text(status));
  CHECK(site.stoker({"status", "demo"}).out.find("incident    ") == std::string::npos);
}
