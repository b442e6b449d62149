// A log that grows, line by line: the cause is told when it changes, and taken back when outlived.
#include "diagnose/match/live_scan.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::diagnose;

namespace {

struct Live {
  Live() {
    configs::Diagnostics errors;
    detector = std::make_shared<const Detector>(*Detector::make(load_knowledge({}, errors)));
    scan = std::make_unique<LiveScan>(detector);
  }
  std::optional<Diagnosis> log(const std::string& text) {
    scan->lines({"main.log", false, ""}, lines, text + "\n");
    lines += 1;
    return scan->news();
  }
  std::optional<Diagnosis> kernel(const std::string& node, const std::string& text) {
    scan->lines({"kern-" + node + ".log", true, node}, 0, text + "\n");
    return scan->news();
  }
  std::string iteration(int i) const {
    return " iteration " + std::to_string(i) +
           "/ 500000 | consumed samples: 614400 | elapsed time per iteration (ms): 5123.4 | lm "
           "loss: 2.104512E+00 |";
  }
  std::shared_ptr<const Detector> detector;
  std::unique_ptr<LiveScan> scan;
  std::uint64_t lines = 0;
};

constexpr const char* kTimeout =
    "[n01:0] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81, "
    "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600027 milliseconds";
constexpr const char* kOom =
    "[n02:3] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";

}  // namespace

TEST_CASE("live scan: effect first, then its cause -> two verdicts, the last names the cause") {
  Live live;
  CHECK_FALSE(live.log(live.iteration(10)).has_value());
  const auto effect = live.log(kTimeout);
  REQUIRE(effect.has_value());
  CHECK(effect->failure_class == FailureClass::NcclTimeout);
  const auto cause = live.log(kOom);
  REQUIRE(cause.has_value());
  CHECK(cause->failure_class == FailureClass::CudaOom);
  CHECK(cause->node == "n02");
  CHECK(cause->rank == 3u);
  CHECK(cause->root->line == 3);
  CHECK_FALSE(live.log(kTimeout).has_value());  // nothing new
}

TEST_CASE("live scan: two further iterations after an error -> taken back") {
  Live live;
  live.log(live.iteration(10));
  REQUIRE(live.log(kTimeout).has_value());
  std::optional<Diagnosis> last;
  for (int i = 11; i < 15; ++i)
    if (auto news = live.log(live.iteration(i))) last = std::move(news);
  REQUIRE(last.has_value());
  CHECK(last->failure_class == FailureClass::Healthy);
  CHECK(live.scan->reported().empty());
}

TEST_CASE(
    "live scan: a new attempt -> the same error is news again; a reader that starts again "
    "there -> is none") {
  Live live;
  REQUIRE(live.log(kOom).has_value());
  const std::string reported = live.scan->reported();
  live.scan->forget();
  REQUIRE(live.log(kOom).has_value());
  Live again;
  again.scan->set_reported(reported);
  CHECK_FALSE(again.log(kOom).has_value());
}

TEST_CASE(
    "live scan: Xid 79 in the kernel log of one of our nodes -> leave it out; of another's "
    "node, or printed by a rank -> nothing") {
  Live live;
  const std::string xid =
      "[  812.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=0, GPU has fallen off the bus.";
  live.scan->set_nodes({"n01", "n02"});
  CHECK_FALSE(live.kernel("n09", xid).has_value());
  CHECK_FALSE(live.log("[n02:3] " + xid.substr(10)).has_value());
  const auto verdict = live.kernel("n02", xid);
  REQUIRE(verdict.has_value());
  CHECK(verdict->failure_class == FailureClass::GpuFallenOffBus);
  CHECK(verdict->from_kernel);
  CHECK(verdict->exclude == std::vector<std::string>{"n02"});
}

TEST_CASE("live scan: our agent's own words about a failure -> no failure of their own") {
  Live live;
  for (const char* line :
       {"[stoker: 4096 bytes of output dropped here]",
        "[n01:0] stoker-train: resume audit of step-000080.g000001: iteration 80 of 1000 resumed",
        "stoker-agent: rank 3 on n02 ended with exit code 1 at iteration 80"})
    CHECK_FALSE(live.log(line).has_value());
}
