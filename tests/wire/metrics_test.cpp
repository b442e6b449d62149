// /metrics: both forms, which one an Accept header asks for, escaping, no series a rank.
#include "wire/metrics.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace stoker;
using namespace stoker::wire;

namespace {

struct Published {
  std::vector<StatusDocument> runs;
  std::vector<PublishedNode> nodes;
  std::vector<StatusAlert> alerts;
  std::vector<FailingSink> failing;
  DaemonHealth health;
  Published() {
    StatusDocument run;
    run.run = "a\"<b>\n";
    run.state = "training";
    run.iteration = 42;
    run.restarts = 3;
    run.eta_s = 3600;
    run.spend = StatusSpend{2, 10.0, 3.0, true};
    run.goodput.emplace();
    run.goodput->ettr = 0.9;
    run.goodput->causes = {{"hang", 2, 60, 0.5, 4}};
    StatusFollower evaluate;
    evaluate.name = "eval";
    evaluate.jobs = {{30, "7", "running", "1970-01-01T00:01:40Z", 1}, {35, "", "waiting", "", 1}};
    evaluate.waiting = {40};
    evaluate.good = 2;
    evaluate.skipped = 5;
    evaluate.behind = 10;
    evaluate.last = StatusFollowResult{20, false, "exit code 3", "", 0};
    run.followers = {evaluate};
    runs = {run};
    failing = {{"hello", "mail", "email", "2026-05-01T00:00:00Z", "refused", 4, {"held"}}};
  }
  [[nodiscard]] std::string text(MetricsForm form, bool up = true) const {
    return metrics_text({runs, nodes, alerts, failing, health, up}, form);
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("metrics: Accept -> the form it asks for, text when it does not say") {
  for (const char* text : {"", "*/*", "text/plain", "text/plain;version=0.0.4;q=0.9,*/*;q=0.1",
                           "application/openmetrics-text;q=0.1,text/plain;q=0.5",
                           "application/openmetrics-text;q=0", "nonsense;;;,,q="})
    CHECK_MESSAGE(metrics_form(text) == MetricsForm::Text, text);
  // As Prometheus 2 and 3 send it.
  for (const char* open :
       {"application/openmetrics-text",
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
        "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
        "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"})
    CHECK_MESSAGE(metrics_form(open) == MetricsForm::OpenMetrics, open);
}

TEST_CASE("metrics: the forms differ where they must") {
  const Published published;
  const std::string text = published.text(MetricsForm::Text);
  const std::string open = published.text(MetricsForm::OpenMetrics);
  CHECK_FALSE(has(text, "# EOF"));
  CHECK(open.ends_with("# EOF\n"));
  CHECK(has(text, "# TYPE stoker_run_restarts_total counter\n"));
  CHECK(has(open, "# TYPE stoker_run_restarts counter\n"));
  for (const std::string& either : {text, open}) {
    CHECK(has(either, "stoker_run_restarts_total{run=\"a\\\"<b>\\n\"} 3\n"));
    CHECK(has(either, "stoker_run_iteration{run=\"a\\\"<b>\\n\"} 42\n"));
    CHECK(has(either, "stoker_run_eta_seconds{run=\"a\\\"<b>\\n\"} 3600\n"));
    CHECK(has(either, "cause=\"hang\"} 60\n"));
    CHECK(has(either, "stoker_run_gpu_seconds_total{run=\"a\\\"<b>\\n\"} 7200\n"));
    CHECK(has(either, "stoker_run_gpu_budget_seconds{run=\"a\\\"<b>\\n\"} 36000\n"));
    CHECK(has(either, "stoker_run_gpu_left_seconds{run=\"a\\\"<b>\\n\"} 10800\n"));
    CHECK(has(either,
              "stoker_run_lost_gpu_seconds_total{run=\"a\\\"<b>\\n\",cause=\"hang\"} 14400\n"));
    CHECK(
        has(either, "stoker_alert_sink_failures{run=\"hello\",sink=\"mail\",kind=\"email\"} 4\n"));
    CHECK(has(either,
              "stoker_run_follower_results_total{run=\"a\\\"<b>\\n\",follower=\"eval\",result="
              "\"left_out\"} 5\n"));
    CHECK(has(either, "follower=\"eval\",state=\"running\"} 1\n"));
    CHECK(has(either, "follower=\"eval\",state=\"submitted\"} 1\n"));
    CHECK(has(either, "follower=\"eval\",state=\"waiting\"} 1\n"));
    for (const char* sample :
         {"job_since_timestamp_seconds", "behind_iterations", "last_iteration", "last_failed"})
      CHECK_MESSAGE(has(either, fmt::format("stoker_run_follower_{}{{run=\"a\\\"<b>\\n\",follower="
                                            "\"eval\"}} ",
                                            sample)),
                    sample);
    CHECK(has(either, "follower=\"eval\"} 100\n"));
    CHECK(has(either, "state=\"training\"} 1\n"));
    CHECK(has(either, "state=\"held\"} 0\n"));
    CHECK_FALSE(has(either, "rank="));
  }
}

TEST_CASE("metrics: a daemon that is away or cannot write its journal -> stoker_up 0") {
  Published published;
  CHECK(has(published.text(MetricsForm::Text), "\nstoker_up 1\n"));
  CHECK(has(published.text(MetricsForm::Text, false), "\nstoker_up 0\n"));
  published.health.journal_trouble = "the disk is full";
  CHECK(has(published.text(MetricsForm::Text), "\nstoker_up 0\n"));
}
