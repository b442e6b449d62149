// Views of `stoker top` for its tests: three runs in trouble of three kinds, and a large one.
#pragma once

#include <fmt/format.h>

#include "cli/top/view.hpp"
#include "site.hpp"

namespace stoker::cli::test {

inline const WallTime kTopNow = *parse_rfc3339("2026-05-01T05:00:00Z");

inline wire::StatusDocument named_run(const std::string& name, const std::string& state) {
  wire::StatusDocument s = training_status();
  s.run = name;
  s.state = state;
  s.published = "2026-05-01T04:59:59Z";
  s.deadline_s = 20;
  return s;
}

// The open run is "hello".
inline top::Detail hello_detail() {
  top::Detail detail;
  detail.run = "hello";
  detail.decisions = {
      event(810, "2026-05-01T02:58:11Z", "training -> recovering",
            "rank 3 on n02 exited with signal 9; 17 of 20 restarts are left, so the ranks are "
            "restarted from iteration 12,000"),
      event(842, "2026-05-01T03:00:00Z", "recovering -> training",
            "first iteration of generation 2 after 12s")};
  detail.decisions[0].actions = {"write_control hello/10/0", "send_alert hello/10/1 rank_crash"};
  detail.events = detail.decisions;
  detail.events.push_back(event(843, "2026-05-01T03:00:01Z", "", ""));
  for (int i = 1; i <= 40; ++i)
    detail.log.push_back(fmt::format("[n01:0]  iteration {:8}/   50000 | lm loss: {:.6E} |",
                                     12460 + i, 2.5 + 0.001 * i));
  wire::Beat beat;
  beat.ranks = 4;
  beat.reporting = 4;
  beat.phase = wire::Phase::Iteration;
  beat.phase_age_ms = 7'200'000;
  beat.iteration_ms = {2, 1980, 2040, 2040};
  beat.slowest = wire::SlowestRank{Rank(3), NodeName("n02"), 1900, 1500};
  beat.oldest = {{Rank(3), NodeName("n02"), 1200, wire::Phase::Iteration, Iteration(12500)},
                 {Rank(0), NodeName("n01"), 300, wire::Phase::Iteration, Iteration(12500)}};
  detail.beat = beat;
  detail.beat_age = 1s;
  return detail;
}

inline top::View three_runs() {
  top::View view;
  view.now = kTopNow;
  view.state = "/home/ana/.local/state/stoker";
  view.runs = {named_run("hello", "training"), named_run("tr11-176B", "held"),
               named_run("bloomz", "recovering")};
  auto& held = view.runs[1];
  held.reason = "3 crashes without progress at iteration 95,000: the data of shard 17 are damaged";
  held.loss = 1.987;
  held.loss_history = {2.1, 2.05, 2.02, 2.0, 1.99, 1.987};
  held.eta_s.reset();
  held.step_s = 0;
  held.checkpoint = wire::StatusCheckpoint{95000, 86400};
  held.budget = {2, 20, 3, 3};
  held.alerts.push_back({"tr11-176B/crash_loop/412", "critical", "crash_loop",
                         "on hold after 3 crashes without progress",
                         "3 crashes without progress at iteration 95,000",
                         "stoker resume tr11-176B", "2026-05-01T03:00:00Z", false});
  held.alerts.push_back({"tr11-176B/slow/400", "warning", "slow", "steps are 30 % slower",
                         "usually 1.6s", "stoker bisect tr11-176B", "2026-05-01T02:00:00Z", true});
  view.held = {{"tr11-176B/slow/400", "mail", "quiet hours", "2026-05-01T07:00:00Z"}};
  wire::StatusFollower upload;
  upload.name = "upload";
  upload.every = 5000;
  upload.given_up = 1;
  upload.last = wire::StatusFollowResult{5000, false, "exit code 3: \"no route to the bucket\"",
                                         "2026-05-01T04:10:00Z", 0};
  wire::StatusFollower evaluate;
  evaluate.name = "evaluate";
  evaluate.every = 1000;
  evaluate.jobs = {{11000, "31", "running", "2026-05-01T04:48:00Z", 2}};
  evaluate.waiting = {12000};
  evaluate.good = 10;
  evaluate.skipped = 2;
  evaluate.behind = 1000;
  evaluate.last = wire::StatusFollowResult{10000, true, "loss 2.31", "2026-05-01T04:30:00Z", 720};
  view.runs[0].followers = {evaluate, upload};
  view.runs[2].loss_history.clear();
  for (int i = 0; i < 60; ++i) view.runs[2].loss_history.push_back(9 - 0.1 * i + (i % 7) * 0.05);
  view.nodes.resize(2);
  view.nodes[0].node = "n01";
  view.nodes[0].state = "ok";
  view.nodes[1].node = "n02";
  view.nodes[1].state = "suspect";
  view.nodes[1].evidence = {"2026-05-01T02:58:11Z rank 3 exited with signal 9"};
  view.detail = hello_detail();
  return view;
}

// 50 runs and 1,000 nodes.
inline top::View large_site() {
  top::View view = three_runs();
  for (int i = 0; i < 47; ++i)
    view.runs.push_back(
        named_run(fmt::format("sweep-{:02}", i), i % 5 == 0 ? "queued" : "training"));
  view.nodes.clear();
  auto& run = view.runs[0];
  run.nodes.clear();
  for (int i = 1; i <= 1000; ++i) {
    run.nodes.push_back(fmt::format("gpu{:04}", i));
    wire::PublishedNode node;
    node.node = run.nodes.back();
    node.state = i == 17 ? "excluded" : i == 500 ? "down" : "ok";
    if (i == 17) node.evidence = {"2026-05-01T02:58:11Z Xid 79: the GPU has fallen off the bus"};
    if (i == 17) node.excluded_until = "2026-05-02T02:58:11Z";
    view.nodes.push_back(node);
  }
  auto& beat = *view.detail.beat;
  beat.ranks = beat.reporting = 8000;
  beat.slowest = wire::SlowestRank{Rank(3001), NodeName("gpu0376"), 2600, 1500};
  beat.oldest = {{Rank(80), NodeName("gpu0011"), 11000, wire::Phase::Iteration, Iteration(12499)},
                 {Rank(7999), NodeName("gpu1000"), -1, wire::Phase::Startup, Iteration(0)}};
  return view;
}

}  // namespace stoker::cli::test
