// `stoker status`: the human block as a golden, JSON, staleness, hostile documents.
#include "cli/show/fold.hpp"
#include "cli/show/pulse_text.hpp"
#include "cli/show/render_status.hpp"
#include "site.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;

namespace {
const WallTime kNow = *parse_rfc3339("2026-05-01T05:00:00Z");

Console plain() {
  return Console([](std::string_view) {}, [](std::string_view) {});
}
}  // namespace

TEST_CASE("status: a training run -> its block") {
  CHECK(render_status(training_status(), kNow, plain()) ==
        R"(* hello  training
  since       2026-05-01T03:00:00Z (2h ago)
  why         first iteration of generation 2 after 12s
  to do       nothing: no alert is open
  job         12_4 RUNNING, generation 2.1, nodes n[01-02]
  progress    iteration 12,500 of 50,000 (25.0 %), 400,000 samples
  loss        2.5  ^+-,.__  lr 0.0006
  step        2.0s an iteration, usually 1.6s (+25 %), 150.0 TFLOPs
  checkpoint  iteration 12,000, 1h 13min old
  eta         16h 40min, at 2026-05-01T21:40:00Z
  budget      17 of 20 restarts left, 1 of 3 without progress, 3 so far
)");
}

TEST_CASE(
    "status: on a narrow terminal -> folded at blanks, below the value; colours take no room") {
  CHECK(
      folded("* hello  training\n  why         rank 1 on n03 ended with signal 9 (Killed)\n", 40) ==
      "* hello  training\n"
      "  why         rank 1 on n03 ended with\n"
      "              signal 9 (Killed)\n");
  CHECK(folded("    because all ranks stopped", 24) ==
        "    because all ranks\n            stopped");
  CHECK(folded("one \033[31mtwo\033[0m three", 13) == "one \033[31mtwo\033[0m three");
  CHECK(folded("one \033[31mtwo\033[0m three", 12) == "one \033[31mtwo\033[0m\n    three");
  CHECK(folded("  path        /a/name/longer/than/the/terminal is/whole\n\n", 20) ==
        "  path\n    /a/name/longer/than/the/terminal\n    is/whole\n\n");
  CHECK(folded("a word  kept   as it is", 80) == "a word  kept   as it is");
}

TEST_CASE("status: hours and TFLOPs that would read 0 -> left out") {
  auto s = training_status();
  s.tflops = 0.04;
  s.goodput = wire::StatusGoodput{};
  s.goodput->causes = {{"hang", 1, 20, 0.004, 0}};
  std::string text = render_status(s, kNow, plain());
  CHECK(text.find("TFLOPs") == std::string::npos);
  CHECK(text.find("lost to") == std::string::npos);
  s.goodput->causes.push_back({"rank_crash", 2, 4000, 2.2, 0});
  text = render_status(s, kNow, plain());
  CHECK(text.find("  lost to     rank crash (2 x) 2.20 node hours\n") != std::string::npos);
}

TEST_CASE("status: GPU hours -> against the budget, and whether the forecast fits") {
  auto s = training_status();
  s.spend = wire::StatusSpend{412.5, 500.0, 60.0, true};
  CHECK(
      render_status(s, kNow, plain())
          .find("  spend       412.5 of 500.0 GPU hours (82.5 %), 60.0 more to the end: the budget "
                "suffices\n") != std::string::npos);
  s.spend->suffices = false;
  CHECK(render_status(s, kNow, plain()).find("the budget does not suffice\n") != std::string::npos);
  s.spend = wire::StatusSpend{3, {}, {}, {}};
  CHECK(render_status(s, kNow, plain()).find("  spend       3.0 GPU hours\n") != std::string::npos);
}

TEST_CASE("status: a forecast -> its range, and the tasks that it needs") {
  auto s = training_status();
  s.forecast = wire::StatusForecast{54000, 72000, 50000, 5000, 5000, 0, 3};
  CHECK(render_status(s, kNow, plain())
            .find("eta         16h 40min, at 2026-05-01T21:40:00Z; 15h "
                  "to 20h (3 more tasks)\n") != std::string::npos);
  s.forecast->tasks = 0;
  CHECK(render_status(s, kNow, plain()).find("; 15h to 20h\n") != std::string::npos);
}

TEST_CASE("status: a stale held run with an alert -> marked, with the command to run") {
  auto s = training_status();
  s.state = "held";
  s.conditions = {"scheduler_blind"};
  s.stale = true;
  s.loss.reset();
  s.checkpoint.reset();
  s.eta_s.reset();
  s.step_s = 0;
  s.job.clear();
  s.job_state.clear();
  s.generation = 0;
  s.nodes.clear();
  s.alerts.push_back({"hello/crash_loop/9", "critical", "crash_loop", "3 crashes without progress",
                      "because", "stoker resume hello", "2026-05-01T03:00:00Z", false});
  CHECK(render_status(s, kNow, plain()) ==
        R"(* hello  held [scheduler_blind] [stale]
  since       2026-05-01T03:00:00Z (2h ago)
  why         first iteration of generation 2 after 12s
  job         none
  progress    iteration 12,500 of 50,000 (25.0 %), 400,000 samples
  checkpoint  none yet
  budget      17 of 20 restarts left, 1 of 3 without progress, 3 so far
  alert       critical 3 crashes without progress [hello/crash_loop/9]
              do: stoker resume hello
  published   2026-05-01T04:00:00Z (1h ago)
)");
}

TEST_CASE("status: sparkline -> lowest, highest, holes and a flat line") {
  CHECK(sparkline({0, 1, 2, 3, 4, 5, 6, 7, 8}) == "_.,-~=+*^");
  CHECK(sparkline({1, 1, 1}) == "---");
  CHECK(sparkline({0, std::nan(""), 8, INFINITY}) == "_ ^ ");
  CHECK(sparkline({}).empty());
  CHECK(with_commas(999) == "999");
  CHECK(with_commas(1234567) == "1,234,567");
}

TEST_CASE("status: pulse -> PULSE or ***ALERT by state") {
  auto s = training_status();
  CHECK(pulse_text(s, kNow) ==
        "[2026-05-01 05:00:00] PULSE: hello is running for 02:00:00 since 2026-05-01T03:00:00 "
        "(12_4 on n[01-02]), iteration 12500/50000, loss 2.5000, checkpoint 12000 of 13min 20s "
        "ago");
  s.state = "queued";
  CHECK(pulse_text(s, kNow) ==
        "[2026-05-01 05:00:00] PULSE: hello is waiting to be scheduled (12_4)");
  s.state = "held";
  s.reason = "no progress over 3 restarts";
  CHECK(pulse_text(s, kNow) ==
        "[2026-05-01 05:00:00] ***ALERT: hello is HELD, not RUNNING or SCHEDULED! no progress over "
        "3 restarts***");
  CHECK(is_alert(s));
  s.state = "stopped";
  s.reason = "an operator asked";
  CHECK(pulse_text(s, kNow) ==
        "[2026-05-01 05:00:00] PULSE: hello is stopped, as asked: an operator asked");
  CHECK_FALSE(is_alert(s));
}

TEST_CASE("status: pulse of a stale publication -> ***ALERT with its age, exit 2") {
  auto s = training_status();
  s.stale = true;
  CHECK(pulse_text(s, kNow) ==
        "[2026-05-01 05:00:00] ***ALERT: hello is not observed! stokerd last published its state "
        "1h ago: it was training. Start stokerd again; stoker doctor says how***");
  s.state = "finished";
  CHECK_FALSE(is_alert(s));
  const Site site;
  CHECK(site.stoker({"pulse"}).code == 0);
  site.publish(training_status());
  const auto said = site.stoker({"pulse"});
  CHECK(said.code == 2);
  CHECK(said.out.find("***ALERT: hello is not observed!") != std::string::npos);
  s = training_status();
  s.state = "finished";
  site.publish(s);
  CHECK(site.stoker({"pulse"}).code == 0);
}

TEST_CASE("status: no daemon -> published document, stale, and said on standard error") {
  const Site site;
  CHECK(site.stoker({"status", "--json"}).out == "[]\n");
  site.publish(training_status());
  const auto said = site.stoker({"status", "hello", "--json"});
  CHECK(said.code == 0);
  CHECK(said.err.find("no daemon is running") != std::string::npos);
  const auto json = parse_json(said.out, "out");
  REQUIRE(json.has_value());
  CHECK((*json)["stale"] == true);
  CHECK((*json)["directory"] == site.directory());
  for (const char* key :
       {"run", "state", "conditions", "since", "reason", "stale", "job", "generation", "nodes",
        "iteration", "total", "loss", "checkpoint", "restarts", "budget", "eta_s", "alerts"})
    CHECK_MESSAGE(json->contains(key), key);
  const auto all = parse_json(site.stoker({"status", "--json"}).out, "out");
  REQUIRE(all->is_array());
  CHECK(all->size() == 1);
  const auto by_directory = site.stoker({"status", site.directory(), "--json"});
  CHECK(parse_json(by_directory.out, "out")->at("run") == "hello");
}

TEST_CASE("status: a daemon that answers -> not stale, nothing said") {
  const Site site;
  auto status = training_status();
  status.published = format_rfc3339(wall_now());
  site.publish(status);
  const FakeDaemon daemon(site.state(), [](const wire::Request&) { return reply(true, "pong"); });
  const auto said = site.stoker({"status", "hello", "--json"});
  CHECK(said.err.empty());
  CHECK(parse_json(said.out, "out")->at("stale") == false);
}

TEST_CASE("status: a daemon that hangs -> an answer at once, stale") {
  const Site site;
  site.publish(training_status());
  const FakeDaemon daemon(site.state(), [](const wire::Request&) { return std::string(); });
  const auto said = site.stoker({"status", "hello", "--json"});
  CHECK(said.err.find("does not answer") != std::string::npos);
  CHECK(parse_json(said.out, "out")->at("stale") == true);
}

TEST_CASE("status: an unknown run -> the nearest name, exit 1") {
  const Site site;
  site.publish(training_status());
  const auto said = site.stoker({"status", "helo"});
  CHECK(said.code == 1);
  CHECK(said.err.find("did you mean \"hello\"?") != std::string::npos);
}

TEST_CASE("status: hostile documents -> one line each, no crash") {
  const Site site;
  auto evil = training_status();
  evil.reason =
      "\033]0;owned\007\x9b"
      "31m\nsecond";
  site.publish(evil);
  const auto shown = site.stoker({"status", "hello"});
  CHECK(shown.code == 0);
  CHECK(shown.out.find('\033') == std::string::npos);
  CHECK(shown.out.find("\nsecond") == std::string::npos);
  const std::string path = site.directory() + "/status.json";
  const std::vector<std::string> broken = {"",
                                           "{",
                                           "[1,2]",
                                           "{\"iteration\": \"many\"}",
                                           "{\"loss\": 1e999}",
                                           std::string(1000, '['),
                                           std::string(9u << 20, ' ')};
  for (const std::string& text : broken) {
    site.write(path, text);
    const auto said = site.stoker({"status", "hello", "--json"});
    CHECK_MESSAGE(said.code == 1, text.substr(0, 30));
    CHECK(std::count(said.err.begin(), said.err.end(), '\n') == 2);
  }
  auto odd = training_status();
  odd.eta_s = 1e300;
  odd.step_s = 1e300;
  odd.since = "yesterday";
  odd.nodes = {"n[", "", "\n"};
  site.publish(odd);
  CHECK(site.stoker({"status", "hello"}).code == 0);
}
