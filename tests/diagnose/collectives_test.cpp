// Which rank did not come: watchdog lines, RAS reports and flight-recorder dumps. The pickles were
// written by CPython's pickle.dumps, protocols 2 and 4, and by torch's pickler (shared memo after
// the value).
#include "diagnose/cause/collectives.hpp"

#include <doctest/doctest.h>

#include "detector.hpp"
#include "diagnose/cause/bystanders.hpp"
#include "diagnose/input/log_file.hpp"
#include "diagnose/parse/flight_recorder.hpp"

using namespace stoker;
using namespace stoker::diagnose;

namespace {

CollectiveReport report(const std::string& group, std::uint32_t rank, std::int64_t stuck,
                        std::int64_t entered, const std::string& operation = "ALLREDUCE") {
  return {group, "", rank, true, stuck, entered, stuck < 0 ? "" : operation};
}

std::string dump(int enqueued, int completed) {
  return R"({"version": "2.5", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "pg_status": {"0": {"last_enqueued_collective": )" +
         std::to_string(enqueued) +
         R"(, "last_started_collective": -1, "last_completed_collective": )" +
         std::to_string(completed) +
         R"(}}, "entries": [{"pg_id": 0, "process_group": ["0", "default_pg"],
    "collective_seq_id": )" +
         std::to_string(enqueued) + R"(, "profiling_name": "nccl:all_reduce", "state": ")" +
         (enqueued > completed ? "started" : "completed") + R"(", "is_p2p": false}]})";
}

}  // namespace

TEST_CASE("collectives: three ranks stuck in 81, one that last entered 80 -> it is missing in 81") {
  const auto view = find_missing({report("0", 0, 81, 81), report("0", 1, 81, 90),
                                  report("0", 2, -1, 80), report("0", 3, 81, 81)});
  REQUIRE(view.missing.size() == 1);
  CHECK(view.missing[0].rank == 2);
  CHECK(view.missing[0].collective == 81);
  CHECK(missing_text(view) ==
        "rank 2 did not enter collective 81 (ALLREDUCE) of group 0, in which 3 ranks wait");
}

TEST_CASE("collectives: ranks enqueue ahead, all stuck in the same one -> nobody is missing") {
  const auto view = find_missing({report("0", 0, 81, 90), report("0", 1, 81, 85)});
  CHECK(view.missing.empty());
  CHECK(view.stuck == 2);
}

TEST_CASE(
    "collectives: a rank is late in one group because it waits in another -> a victim, not "
    "the cause") {
  const auto view = find_missing({report("dp", 0, 12, 12), report("dp", 1, -1, 11),
                                  report("tp", 1, 40, 40), report("tp", 2, -1, 39)});
  REQUIRE(view.missing.size() == 1);
  CHECK(view.missing[0].rank == 2);
  CHECK(view.missing[0].group == "tp");
}

TEST_CASE("collectives: the same number, another operation -> said") {
  const auto view = find_missing({report("0", 0, 5, 5), report("0", 1, 5, 5, "BROADCAST")});
  CHECK(view.disagreement ==
        "as collective 5 of group 0 rank 0 calls ALLREDUCE and rank 1 calls BROADCAST");
}

TEST_CASE("collectives: watchdog lines of several versions -> group, rank, numbers") {
  const auto old = parse_watchdog_line(
      "[rank2]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 2] Timeout at NCCL work: 1, last enqueued "
      "NCCL work: 4, last completed NCCL work: 76280750235782912.");
  REQUIRE(old.has_value());
  CHECK(old->rank == 2);
  CHECK(old->stuck_in == 1);
  CHECK(old->entered == 4);
  const auto newer = parse_watchdog_line(
      "[rank3]:[E1218 20:27:21.4 ProcessGroupNCCL.cpp:629] [PG ID 1 PG GUID 5(tp) Rank 3] Watchdog "
      "caught collective operation timeout: WorkNCCL(SeqNum=81, OpType=ALLREDUCE, NumelIn=1, "
      "NumelOut=1, Timeout(ms)=600000) ran for 600081 milliseconds before timing out.");
  REQUIRE(newer.has_value());
  CHECK(newer->group == "5(tp)");
  CHECK_FALSE(newer->global_rank);
  CHECK(newer->stuck_in == 81);
  CHECK(newer->operation == "ALLREDUCE");
  CHECK_FALSE(parse_watchdog_line("[Rank 0] NCCL INFO comm 0x55 rank 0 nranks 8").has_value());
}

TEST_CASE("collectives: a RAS report -> the ranks behind and their nodes, not those ahead") {
  RasReader ras;
  for (const char* line :
       {"#0-0 (27a079b828ff1a75) MISMATCH", "26 ranks have launched up to operation 6650",
        "6 ranks have launched up to operation 6649",
        "Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210",
        "Rank 2 -- GPU 2 managed by process 483074 on node 172.16.64.210"})
    CHECK(ras.line(line));
  CHECK_FALSE(ras.line("Communicator ranks have different collective operation counts"));
  const auto view = find_missing(ras.reports());
  REQUIRE(view.missing.size() == 2);
  CHECK(view.missing[0].rank == 0);
  CHECK(view.missing[0].node == "172.16.64.210");
  CHECK(view.missing[0].collective == 6650);

  RasReader newer;
  newer.line("#0-0 (78db921d1c117b4a) MISMATCH");
  newer.line("7 ranks have launched up to operation 64");
  newer.line(
      "Rank 7 has launched up to operation 60 -- GPU 3 managed by process 1650386 on node n1");
  REQUIRE(find_missing(newer.reports()).missing.size() == 1);
  CHECK(find_missing(newer.reports()).missing[0].collective == 61);
}

TEST_CASE("flight recorder: dumps of two ranks -> the one that did not enter is named") {
  auto reports = *read_flight_dump(dump(81, 80), 0, "rank 0");
  const auto other = *read_flight_dump(dump(80, 80), 1, "rank 1");
  reports.insert(reports.end(), other.begin(), other.end());
  const auto view = find_missing(reports);
  REQUIRE(view.missing.size() == 1);
  CHECK(view.missing[0].rank == 1);
  CHECK(missing_text(view) ==
        "rank 1 did not enter collective 81 (ALL_REDUCE) of group "
        "0(default_pg), in which 1 rank waits");
  CHECK_FALSE(read_flight_dump(R"({"pg_config": {}})", 0, "x").has_value());
  CHECK_FALSE(read_flight_dump("\x80\x02]q.", 0, "x").has_value());
}

TEST_CASE(
    "diagnose: a time-out, seven ranks that say where they wait and one that says less -> "
    "the one is blamed") {
  std::string text;
  for (int rank = 0; rank < 7; ++rank) {
    const std::string r = std::to_string(rank);
    text += "[rank" + r +
            "]:[E1218 ProcessGroupNCCL.cpp:629] [PG ID 0 PG GUID 0(default_pg) Rank " + r +
            "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81, OpType=ALLREDUCE, "
            "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600081 milliseconds before timing "
            "out.\n";
  }
  text +=
      "[rank7]:[E1218 ProcessGroupNCCL.cpp:1834] [PG ID 0 PG GUID 0(default_pg) Rank 7] Exception "
      "(either an error or timeout) detected by watchdog at work: 80, last enqueued NCCL work: "
      "80, last completed NCCL work: 80.\n";
  const auto d =
      find_cause({scan_text(detector(), text, "main.log")}, detector().knowledge().causes);
  CHECK(d.failure_class == FailureClass::NcclTimeout);
  CHECK(d.ranks == std::vector<std::uint32_t>{7});
  CHECK(d.collective.starts_with("rank 7 did not enter collective 81 (ALLREDUCE)"));
}
