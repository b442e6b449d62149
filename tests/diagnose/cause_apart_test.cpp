// Causes that no order of lines tells: other clocks, other runs, who is silent, stacks alone.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "detector.hpp"
#include "diagnose/cause/diagnosis.hpp"
#include "diagnose/input/log_file.hpp"

using namespace stoker;
using namespace stoker::diagnose;

namespace {

struct Log {
  std::string name, text;
};

Diagnosis cause_of(const std::vector<Log>& logs) {
  std::vector<ScannedLog> scanned;
  for (const auto& log : logs)
    scanned.push_back(
        scan_text(detector(), log.text, log.name, static_cast<std::uint32_t>(scanned.size())));
  return find_cause(scanned, detector().knowledge().causes);
}

std::string watchdog(int rank) {
  return fmt::format(
      "[rank{0}]:[E1218 20:27:21.426415540 ProcessGroupNCCL.cpp:629] [Rank {0}] Watchdog caught "
      "collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000)\n",
      rank);
}

}  // namespace

TEST_CASE(
    "cause: nothing but stacks -> one rank apart is a hang, not sure; all alike say nothing") {
  const auto dump = [](std::uint32_t rank, const char* frame) {
    ScannedLog log;
    log.name = "stacks";
    log.rank = rank;
    log.lines = 3;
    log.stacks = std::string("Thread 140 (idle): \"MainThread\"\n    ") + frame + "\n";
    return log;
  };
  const auto& rules = detector().knowledge().causes;
  const char *const waits = "all_reduce (c10d.py:1)", *const reads = "read_shard (data.py:7)";
  const auto apart = find_cause({dump(0, waits), dump(1, waits), dump(2, reads)}, rules);
  CHECK(apart.failure_class == FailureClass::Hang);
  CHECK_FALSE(apart.fatal);
  CHECK(apart.confidence <= 0.5);
  CHECK(apart.ranks == std::vector<std::uint32_t>{2});
  const auto alike = find_cause({dump(0, waits), dump(1, waits), dump(2, waits)}, rules);
  CHECK(alike.failure_class == FailureClass::Healthy);
  CHECK(alike.confidence <= 0.1);
}

TEST_CASE("cause: a line that came again -> how often, first and last time") {
  const auto d =
      find_cause({scan_text(detector(),
                            "[Fri Aug 30 11:43:14 2024] NVRM: Xid (PCI:0000:cb:00): 48, pid=1\n"
                            "[Fri Aug 30 11:43:24 2024] NVRM: Xid (PCI:0000:cb:00): 48, pid=1\n",
                            "dmesg")},
                 detector().knowledge().causes);
  const Json root = to_json_object(d).at("root");
  CHECK(root.at("count") == 2);
  CHECK(root.at("first") == "2024-08-30T11:43:14Z");
  CHECK(root.at("last") == "2024-08-30T11:43:24Z");
}

TEST_CASE(
    "cause: the kernel spoke of it days before or after the run -> a warning, never the cause") {
  const std::string run = "2024-05-01 10:00:00 start\n" + watchdog(0) + "2024-05-01 10:05:00 end\n";
  const auto xid = [](const char* day) {
    return Log{"dmesg-n1.txt",
               std::string("[") + day + " 10:02:00 2024] NVRM: Xid (PCI:0000:cb:00): 48, pid=1\n"};
  };
  CHECK(cause_of({{"main.log", run}, xid("Wed May  1")}).failure_class == FailureClass::Xid);
  for (const char* day : {"Mon Apr 29", "Fri May  3"}) {
    const auto d = cause_of({{"main.log", run}, xid(day)});
    CHECK(d.failure_class == FailureClass::NcclTimeout);
    CHECK(d.notes.size() >= 1);
    const auto quiet = cause_of({{"main.log", "2024-05-01 10:00:00 start\n"}, xid(day)});
    CHECK(quiet.failure_class == FailureClass::Xid);
    CHECK_FALSE(quiet.fatal);
  }
}

TEST_CASE("cause: an exception of one rank, time-outs of others, no clock -> the exception") {
  const std::string raised =
      "[rank2]: Traceback (most recent call last):\n[rank2]:   File \"t.py\", line 1, in f\n"
      "[rank2]: AssertionError\n";
  const auto d = cause_of({{"0.log", watchdog(0)}, {"2.log", raised}, {"5.log", watchdog(0)}});
  CHECK(d.failure_class == FailureClass::PythonTraceback);
  CHECK(d.ranks == std::vector<std::uint32_t>{2});
  // In one log its order decides.
  CHECK(cause_of({{"all.log", watchdog(0) + raised}}).failure_class == FailureClass::NcclTimeout);
}

TEST_CASE("cause: srun tells last who crashed, the others have lost their peer -> the crash") {
  std::string peers;
  for (int rank = 0; rank < 4; ++rank)
    peers += fmt::format(
        "[rank{}]: ncclRemoteError: A call failed possibly due to a network error or a remote "
        "process exiting prematurely.\n",
        rank);
  const auto d = cause_of(
      {{"main.log", peers + "srun: error: n03: task 5: Segmentation fault (core dumped)\n"}});
  CHECK(d.failure_class == FailureClass::Segfault);
  CHECK(d.node == "n03");
  CHECK(d.ranks == std::vector<std::uint32_t>{5});
  // An abort is what a time-out itself ends in.
  CHECK(cause_of({{"main.log", watchdog(0) + "srun: error: n03: task 5: Aborted (core dumped)\n"}})
            .failure_class == FailureClass::NcclTimeout);
}

TEST_CASE(
    "cause: all ranks but one report the time-out -> the silent one; its stack says as much") {
  std::vector<Log> logs;
  for (int rank = 0; rank < 8; ++rank)
    logs.push_back({fmt::format("rank-{}.log", rank), rank == 6 ? "started\n" : watchdog(rank)});
  CHECK(cause_of(logs).ranks == std::vector<std::uint32_t>{6});
  logs.erase(logs.begin() + 6);
  CHECK(cause_of(logs).ranks.size() > 1);
}
