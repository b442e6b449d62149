// /api/v1/runs/RUN/… and the overview: what the page draws from.
#include "daemon/http/run_api.hpp"

#include <doctest/doctest.h>

#include "daemon/http/overview.hpp"
#include "tests/daemon/fixtures.hpp"

using namespace stoker;
using namespace stoker::daemon;
using namespace stoker::daemon::test;

namespace {

// A run with `count` digests, one a second from 2023-11-14T22:13:21Z on, 10 iterations each; a
// spike in the seventh.
SiteView site(std::uint64_t count = 100) {
  SiteView view;
  wire::StatusDocument run;
  run.run = "hello";
  run.state = "training";
  view.runs = {run};
  auto history = std::make_shared<SharedHistory>(RunName("hello"));
  for (std::uint64_t i = 1; i <= count; ++i) {
    core::Digest digest;
    digest.last.iteration_max = Iteration(10 * i);
    digest.losses = {10, 2, 1.5, i == 7 ? 99.0 : 2.5, Iteration(1), 0, 0, 0, 0, {}};
    history->take(row(i, digest));
  }
  view.parts["hello"].history = std::move(history);
  return view;
}

Json body(const SiteView& view, const std::string& target, int status = 200) {
  const auto request = parse_target(target);
  REQUIRE(request);
  const Page page = render_page(view, *request);
  CHECK_MESSAGE(page.status == status, target << page.body);
  CHECK(page.type == "application/json");
  return *parse_json(page.body, target);
}

wire::StatusDocument named(const std::string& name, const std::string& state) {
  wire::StatusDocument run;
  run.run = name;
  run.state = state;
  return run;
}

}  // namespace

TEST_CASE("run api: a series -> points with the spike, as many as asked for") {
  const SiteView view = site();
  const Json all = body(view, "/api/v1/runs/hello/series?metric=loss&points=5");
  CHECK(all["of"] == 100);
  REQUIRE(all["points"].size() == 5);
  CHECK(all["points"][0][4] == 99);
  CHECK(all["points"][1][4] == 2.5);
  CHECK(all["points"][4][1] == 1000);
  CHECK(all["points"][0][2] == 1.5);
  const Json part = body(view, "/api/v1/runs/hello/series?metric=loss&from=500&to=600");
  CHECK(part["of"] == 10);
  CHECK(part["points"][0][1] == 500);
  const Json timed = body(
      view,
      "/api/v1/runs/hello/series?metric=loss&from=2023-11-14T22:13:30Z&to=2023-11-14T22:13:40Z");
  CHECK(timed["of"] == 10);
  CHECK(body(view, "/api/v1/runs/hello/series?metric=grad_norm")["points"].empty());
  CHECK(body(view, "/api/v1/runs/hello/series?metric=loss&from=99999999")["of"] == 0);
}

TEST_CASE("run api: hostile queries -> 400 and one line that says what is wrong") {
  const SiteView view = site();
  const std::string base = "/api/v1/runs/hello/series";
  for (const char* query :
       {"", "?metric=", "?metric=<script>", "?metric=loss&points=0", "?metric=loss&points=1e9",
        "?metric=loss&points=99999999999999999999", "?metric=loss&points=-5",
        "?metric=loss&from=yesterday", "?metric=loss&from=-1",
        "?metric=loss&to=", "?metric=loss&from=2026-99-01T00:00:00Z", "?metric=loss&form=1"}) {
    const Json answer = body(view, base + query, 400);
    const std::string line = answer["error"];
    CHECK_MESSAGE(line.size() > 10, query);
    CHECK(line.find('\n') == std::string::npos);
  }
  body(view, "/api/v1/runs/hello/incidents?x=1", 400);
  body(view, "/api/v1/runs/nosuch/series?metric=loss", 404);
  body(view, "/api/v1/runs/hello/nosuch", 404);
  body(view, "/api/v1/runs/", 404);
  CHECK(body(view, "/api/v1/runs/%3Cscript%3E/series", 404)["error"].get<std::string>().find(
            "<script>") != std::string::npos);
}

TEST_CASE("run api: nodes -> ranks a node, known ages, the ledger's word") {
  SiteView view = site(1);
  auto history = std::make_shared<SharedHistory>(RunName("hello"));
  core::AgentSaid said;
  wire::AttemptStarted started;
  started.world_size = 5;
  started.nodes = {NodeName("n01"), NodeName("n02")};
  said.event.body = started;
  history->take(row(1, said));
  wire::Beat beat;
  beat.oldest = {{Rank(3), NodeName("n02"), 4500, wire::Phase::Iteration, Iteration(7)}};
  view.parts["hello"] = {history, beat};
  wire::PublishedNode sick;
  sick.node = "n02";
  sick.state = "suspect";
  view.nodes = {sick};
  const Json nodes = body(view, "/api/v1/runs/hello/nodes");
  CHECK(nodes["world_size"] == 5);
  REQUIRE(nodes["nodes"].size() == 2);
  CHECK(nodes["nodes"][1]["first_rank"] == 3);
  CHECK(nodes["nodes"][1]["ranks"] == 2);
  CHECK(nodes["nodes"][1]["state"] == "suspect");
  CHECK(nodes["oldest"][0]["age_s"] == 4.5);
}

TEST_CASE("run api: a history that is not read yet -> 503, ask again") {
  SiteView view = site();
  view.parts.clear();
  body(view, "/api/v1/runs/hello/series?metric=loss", 503);
  CHECK(body(view, "/api/v1/runs/hello")["run"] == "hello");
}

TEST_CASE("overview: worst first, one sentence for all") {
  SiteView view;
  view.runs = {named("done", "finished"), named("good", "training"), named("bad", "recovering"),
               named("<script>", "held")};
  Json all = overview(view);
  CHECK(all["level"] == "critical");
  CHECK(all["sentence"] == "1 run needs a person");
  std::vector<std::string> order;
  for (const Json& run : all["runs"]) order.push_back(run["run"]);
  CHECK(order == std::vector<std::string>{"<script>", "bad", "good", "done"});
  view.runs = {named("done", "finished"), named("good", "training")};
  all = overview(view);
  CHECK(all["level"] == "ok");
  CHECK(all["sentence"] == "all is well");
  view.failing.push_back({"good", "mail", "email", "", "refused", 1, {}});
  CHECK(overview(view)["level"] == "warning");
  view.health.journal_trouble = "the disk is full";
  CHECK(overview(view)["level"] == "critical");
}

TEST_CASE("overview: what is held back -> there, with its alert's id") {
  SiteView view;
  view.held = {{"a/slow/1", "mail", "quiet hours", "2026-05-01T07:00:00Z"}};
  const Json all = overview(view);
  CHECK(all["held"][0]["id"] == "a/slow/1");
  CHECK(all["held"][0]["rule"] == "quiet hours");
}

TEST_CASE("overview: alerts decide too; what is acknowledged is not urgent") {
  wire::StatusDocument run = named("a", "training");
  CHECK(level_of(run) == Level::Ok);
  wire::StatusAlert alert;
  alert.severity = "critical";
  run.alerts = {alert};
  CHECK(level_of(run) == Level::Critical);
  run.alerts[0].acknowledged = true;
  CHECK(level_of(run) == Level::Warning);
  run.state = "stopped";
  CHECK(level_of(run) == Level::Over);
}
