// A run directory and a kernel log as they grow; what the decider receives, once, across a restart.
#include "daemon/logs/log_watch.hpp"

#include <doctest/doctest.h>

#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::daemon;

namespace {

struct Watched {
  Watched() {
    policy.run = RunName("demo");
    policy.directory = folder.path;
    std::filesystem::create_directory(folder / "gen-000001");
  }
  LogWatch start() { return {policy, false, cursors, knowledge}; }
  // The verdicts of one poll; their cursors are kept as a journal would.
  std::vector<core::Diagnosed> poll(LogWatch& watch, std::vector<core::Input> heard = {}) {
    now += 11s;
    watch.poll(now, heard);
    std::vector<core::Diagnosed> verdicts;
    kinds.clear();
    for (const core::Input& input : heard) {
      kinds.emplace_back(core::kind_of(input.body));
      if (const auto* d = std::get_if<core::Diagnosed>(&input.body)) verdicts.push_back(*d);
      for (const core::Cursor& cursor : input.cursors) {
        std::erase_if(cursors, [&](const core::Cursor& c) { return c.path == cursor.path; });
        cursors.push_back(cursor);
      }
    }
    return verdicts;
  }
  core::Input said(wire::AgentBody body) const {
    return {policy.run, core::AgentSaid{Generation{1}, "lead", {1, now, {}, std::move(body)}}, {}};
  }
  stoker::testing::Folder folder;
  core::RunPolicy policy;
  LogKnowledge knowledge;
  std::vector<core::Cursor> cursors;
  std::vector<std::string> kinds;
  Instant now{100s};
};

wire::AttemptStarted attempt(std::uint32_t number) {
  wire::AttemptStarted e;
  e.attempt = Attempt{number};
  return e;
}
wire::RankExited exited(std::uint32_t attempt_number, const std::string& last) {
  wire::RankExited e;
  e.attempt = Attempt{attempt_number};
  e.node = NodeName("n02");
  e.rank = Rank{3};
  e.code = 1;
  e.last_lines = last;
  return e;
}

constexpr const char* kOom =
    "[n02:3] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n";

}  // namespace

TEST_CASE(
    "log watch: a rank's last lines reach main.log late -> the verdict still comes before its "
    "end is reported") {
  Watched w;
  LogWatch watch = w.start();
  w.poll(watch, {w.said(attempt(1))});
  w.folder.append("gen-000001/main.log", "[n01:0] starting\n");
  const auto verdicts = w.poll(
      watch, {w.said(exited(1, "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"))});
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].failure_class == "cuda_oom");
  CHECK(verdicts[0].attempt == Attempt{1});
  CHECK(verdicts[0].nodes == std::vector{NodeName("n02")});
  CHECK(w.kinds == std::vector<std::string>{"diagnosed", "agent_said"});
}

TEST_CASE("log watch: killed and started again between two lines -> each verdict once") {
  Watched w;
  {
    LogWatch watch = w.start();
    w.poll(watch, {w.said(attempt(2))});
    w.folder.append("gen-000001/main.log", kOom);
    REQUIRE(w.poll(watch).size() == 1);
  }
  LogWatch watch = w.start();
  CHECK(w.poll(watch).empty());
  w.folder.append("gen-000001/main.log", kOom);
  CHECK(w.poll(watch).empty());
  // What it had read before is remembered: the time-out is an effect, and no other cause.
  w.folder.append("gen-000001/main.log",
                  "[n01:0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81, "
                  "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600027 milliseconds\n");
  CHECK(w.poll(watch).empty());
  w.poll(watch, {w.said(attempt(3))});
  w.folder.append("gen-000001/main.log", kOom);
  const auto verdicts = w.poll(watch);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].attempt == Attempt{3});
}

TEST_CASE(
    "log watch: a kernel log that was there before -> old Xids are history, new ones accuse "
    "the node in its name, %N") {
  Watched w;
  w.policy.watch.kernel_logs = {w.folder / "kern-%N.log"};
  const auto xid = [](int seconds) {
    return "[ " + std::to_string(seconds) +
           ".5] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n";
  };
  w.folder.append("kern-n02.log", xid(10));
  {
    LogWatch watch = w.start();
    CHECK(w.poll(watch).empty());
    CHECK(w.poll(watch).empty());
  }
  w.folder.append("kern-n02.log", xid(900));  // while the daemon is away
  w.folder.append("kern-n03.log", xid(901));
  LogWatch watch = w.start();
  const auto verdicts = w.poll(watch);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].failure_class == "gpu_fallen_off_bus");
  CHECK(verdicts[0].from_kernel);
  REQUIRE(!verdicts[0].exclude.empty());
  CHECK(verdicts[0].evidence.front().find("kern-n02.log:") != std::string::npos);
}

TEST_CASE("log watch: renamed while the daemon is away, without a successor -> read to its end") {
  Watched w;
  w.policy.watch.logs = {w.folder / "*.log"};
  {
    LogWatch watch = w.start();
    w.poll(watch);
    w.folder.append("train.log", "starting\n");
    w.poll(watch);
    w.folder.append("train.log", "still starting\n");
    w.poll(watch, {w.said(attempt(1))});
    w.folder.append("train.log", "Traceback (most recent call last):\n");
    w.poll(watch);
  }
  REQUIRE(!w.cursors.empty());
  w.folder.append("train.log", kOom);
  std::filesystem::rename(w.folder / "train.log", w.folder / "train.log.1");
  LogWatch watch = w.start();
  const auto verdicts = w.poll(watch);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].failure_class == "cuda_oom");
}

TEST_CASE("log watch: the first log of a script -> followed before its job's end is judged") {
  Watched w;
  w.policy.train.batch_script = "/home/a/tr11.slurm";
  w.policy.watch.logs = {w.folder / "*.out"};
  LogWatch watch = w.start();
  w.poll(watch);
  w.folder.append("run-7.out", "step=60 loss=1\n");
  w.now -= 7s;  // 4 s after the poll before
  w.poll(watch);
  CHECK(w.kinds == std::vector<std::string>{"log_followed"});
}

TEST_CASE("log watch: a site's signature with a mistake -> said, ours go on") {
  Watched w;
  w.folder.append("site.yaml", "family: site\nsignatures: [{name: x}]\n");
  w.policy.watch.signatures = {w.folder / "site.yaml"};
  w.folder.append("gen-000001/main.log", kOom);
  LogWatch watch = w.start();
  CHECK(w.poll(watch).size() == 1);
  CHECK(w.kinds.front() == "log_followed");
}

TEST_CASE("log watch: logs that stop growing after an error -> a silence, ever longer ones count") {
  Watched w;
  LogWatch watch = w.start();
  w.poll(watch, {w.said(attempt(1))});
  w.folder.append("gen-000001/main.log", "[n01:0] starting\n");
  w.poll(watch);
  w.poll(watch);
  CHECK(watch.silences() == 0);  // silent, but without an error
  w.folder.append("gen-000001/main.log", kOom);
  w.poll(watch);
  CHECK(watch.silences() == 0);
  w.poll(watch);  // 11 s later
  CHECK(watch.silences() == 1);
  w.poll(watch);
  CHECK(watch.silences() == 1);
  for (int i = 0; i < 9;
       ++i) {  // 6 s, 12 s and more are needed now: lines each 11 s are no silence
    w.folder.append("gen-000001/main.log", "[n01:0] leaving\n");
    w.poll(watch);
  }
  CHECK(watch.silences() <= 2);
  w.poll(watch, {w.said(attempt(2))});
  w.poll(watch);
  CHECK(watch.silences() <= 2);
}
