// The parsers, on text as the commands print it (constructed from the manuals and from what
// Debian's 22.05.8 printed).
#include <ctime>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fstream>

#include "scripted_cluster.hpp"
#include "slurm/client_call.hpp"
#include "slurm/job_detail.hpp"
#include "slurm/job_state.hpp"
#include "slurm/queue_poll.hpp"
#include "slurm/submit_answer.hpp"

using namespace stoker;
using namespace stoker::slurm;
using core::JobState;
using stoker::slurm::testing::row;

TEST_CASE("queue: names of jobs -> the run's and its followers', no other run's") {
  const std::vector<RunName> runs{RunName("tr11")};
  CHECK(is_job_of("tr11", runs));
  CHECK(is_job_of("tr11+evaluate.1000", runs));
  CHECK_FALSE(is_job_of("tr11b", runs));
  CHECK_FALSE(is_job_of("tr11b+evaluate.1000", runs));
  CHECK(is_job_of("tr11+evaluate.1000", {RunName("tr11+evaluate.1000")}));
}

TEST_CASE("state: base words, letters, flags, truncated, by uid -> what they mean") {
  CHECK(parse_state("RUNNING")->state == JobState::Running);
  CHECK(parse_state("PD")->state == JobState::Pending);
  CHECK(parse_state("OUT_OF_ME+")->state == JobState::OutOfMemory);
  CHECK(parse_state("CANCELLED+")->state == JobState::Cancelled);
  CHECK(parse_state("CANCELLED by 1000")->state == JobState::Cancelled);
  CHECK(parse_state("CANCELLED by 1000")->cancelled_by_uid == 1000);
  CHECK(parse_state("STAGE_OUT")->state == JobState::Completing);
  CHECK(parse_state("REQUEUE_HOLD")->state == JobState::Requeued);
  CHECK(!core::is_terminal(parse_state("COMPLETING")->state));
  for (const char* bad : {"", "+", "C+", "RUNING", "running", "terminé", "COMPLETED\n"})
    CHECK_MESSAGE(!parse_state(bad), bad);
}

TEST_CASE("queue: running task with pipes and quotes in its name -> every field") {
  const auto rows =
      parse_queue(row({"124", "123", "4", "RUNNING", "None", "1700000000", "1700072000",
                       "1699990000", "n[001-003]", "1000", "a|b 'c\" $(d)", "x|y;z"}));
  REQUIRE(rows);
  REQUIRE(rows->size() == 1);
  const QueueRow& r = rows->front();
  CHECK(r.raw_id == 124);
  CHECK(r.id == JobId{123, 4});
  CHECK(r.state == JobState::Running);
  CHECK(r.ends == WallTime(1700072000s));
  CHECK(r.nodes.size() == 3);
  CHECK(r.uid == 1000);
  CHECK(r.name == "a|b 'c\" $(d)");
  CHECK(r.comment == "x|y;z");
}

TEST_CASE("queue: a time that nanoseconds cannot hold -> none") {
  const auto rows = parse_queue(row({"124", "123", "4", "RUNNING", "None", "9300000000",
                                     "1700072000", "1699990000", "n001", "1000", "x", "y"}));
  REQUIRE(rows);
  CHECK(!rows->front().starts);
  CHECK(rows->front().ends);
}

TEST_CASE("queue: pending, no times, no nodes, no comment -> empty fields") {
  const auto rows = parse_queue(row({"123", "123", "N/A", "PENDING", "Resources", "N/A", "N/A",
                                     "1699990000", "", "1000", "tr11", "(null)"}));
  REQUIRE(rows);
  CHECK(rows->front().id == JobId{123, 0});
  CHECK(!rows->front().starts);
  CHECK(rows->front().nodes.empty());
  CHECK(rows->front().comment.empty());
}

TEST_CASE("queue: empty good answer -> no rows; torn, foreign or odd ones -> errors") {
  const std::string good =
      row({"1", "1", "1", "RUNNING", "None", "1", "2", "3", "n1", "0", "a", "b"});
  CHECK(parse_queue("")->empty());
  CHECK(parse_queue(good + "goes on\n")->size() == 1);  // a comment with a newline
  CHECK(!parse_queue(good.substr(0, good.size() - 1)));
  CHECK(!parse_queue(good + good.substr(0, 9) + "\n"));
  CHECK(!parse_queue("Welcome to the cluster\n" + good));
  CHECK(!parse_queue(row({"x", "1", "1", "RUNNING", "", "", "", "", "", "0", "a", "b"})));
  CHECK(!parse_queue(row({"1", "1", "1", "GELAUFEN", "", "", "", "", "", "0", "a", "b"})));
  CHECK(!parse_queue(row({"1", "1", "1-5", "PENDING", "", "", "", "", "", "0", "a", "b"})));
  CHECK(!parse_queue(row({"1", "1", "1", "RUNNING", "", "", "", "", "n[1-", "0", "a", "b"})));
}

TEST_CASE("queue: the node list of the answer before -> taken from it, and forgotten with it") {
  const auto with = [](const std::string& nodes) {
    return row({"124", "123", "4", "RUNNING", "None", "1700000000", "1700072000", "1699990000",
                nodes, "1000", "alice", "/x.sh", "tr11", "c"});
  };
  NodeLists lists;
  const auto first = parse_queue(with("n[1-3]"), {}, {}, &lists);
  REQUIRE(first);
  CHECK(lists.size() == 1);
  const auto again = parse_queue(with("n[1-3]"), {}, {}, &lists);
  REQUIRE(again);
  CHECK(&again->at(0).nodes.list() == &first->at(0).nodes.list());
  const auto other = parse_queue(with("n[4-5]"), {}, {}, &lists);
  REQUIRE(other);
  CHECK(other->at(0).nodes.list() == std::vector{NodeName("n4"), NodeName("n5")});
  CHECK(lists.size() == 1);
  CHECK_FALSE(parse_queue(with("n[1-"), {}, {}, &lists));
  CHECK(lists.contains("n[4-5]"));
}

TEST_CASE("queue: odd rows of other names -> kept out when names are given") {
  const std::string odd = row({"9", "9", "1-5", "WHAT", "", "", "", "", "", "0", "other", ""});
  const std::string mine =
      row({"1", "1", "1", "RUNNING", "None", "1", "2", "3", "n1", "0", "tr11", "t"});
  CHECK(!parse_queue(odd + mine));
  CHECK(parse_queue(odd + mine, {RunName("tr11")})->size() == 1);
}

// Processor time of this process, so that a loaded machine does not matter; a sanitizer makes it
// slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kQueueLimitMs = 1000;
#else
constexpr double kQueueLimitMs = 50;
#endif

TEST_CASE("queue: 20000 rows -> below 50 ms") {
  std::string text;
  for (int i = 0; i < 20000; ++i)
    text += row({std::to_string(i + 1), std::to_string(i + 1), "1", "RUNNING", "None", "1700000000",
                 "1700072000", "1699990000", "n[001-048]", "1000", "job", "c"});
  const std::clock_t before = std::clock();
  const auto rows = parse_queue(text, {RunName("tr11")});
  CHECK(1000.0 * static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC < kQueueLimitMs);
  CHECK(rows->empty());
}

TEST_CASE("sbatch: banners before and after, cluster, warnings -> the id") {
  CHECK(parse_parsable("123\n") == 123u);
  CHECK(parse_parsable("123;jean-zay\n") == 123u);
  CHECK(parse_parsable("Welcome!\n--> ok\n4711\nYour balance: 12 hours\n") == 4711u);
  CHECK(parse_parsable("77\r\n") == 77u);
  CHECK(!parse_parsable("Submitted batch job 12\n"));
  CHECK(!parse_parsable("12 jobs are before you\n"));
  CHECK(!parse_parsable(""));
  CHECK(!parse_parsable("0\n"));
  CHECK(!parse_parsable("99999999999999999999999\n"));
}

TEST_CASE("sbatch: refused -> Definite with advice; lost controller -> Unknown") {
  using stoker::slurm::testing::says;
  const auto judge = [](const Result<os::CommandOutput>& o) { return judge_submit(*o); };
  const auto refused = judge(says("",
                                  "sbatch: error: Batch job submission failed: Invalid account or "
                                  "account/partition combination specified\n",
                                  1));
  const auto& error = std::get<core::PortError>(refused);
  CHECK(error.certainty == core::Certainty::Definite);
  CHECK(error.error.hint.find("scheduler.account") != std::string::npos);
  for (const char* text :
       {"sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n",
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (receive "
        "failure)\n",
        "sbatch: error: Batch job submission failed: Message send failure\n",
        "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received\n",
        ""})
    CHECK(std::get<core::PortError>(judge(says("", text, 1))).certainty ==
          core::Certainty::Unknown);
  CHECK(std::get<core::PortError>(judge(says("no id here\n"))).certainty ==
        core::Certainty::Unknown);
  CHECK(std::get<JobId>(judge(says("12\n", "sbatch: warning: can't run 1 processes\n"))) ==
        JobId{12, 0});
}

TEST_CASE("sbatch: refusals as Debian's 22.05.8 words them -> Definite, each with what to do") {
  using stoker::slurm::testing::says;
  const std::string failed = "sbatch: error: Batch job submission failed: ";
  const std::vector<std::pair<std::string, std::string>> captured{
      {"sbatch: error: invalid partition specified: nope\n" + failed +
           "Invalid partition name "
           "specified\n",
       "scheduler.partition"},
      {"Invalid time specification (pos=0): zz\nsbatch: error: Invalid --begin specification\n",
       "scheduler.begin"},
      {"sbatch: error: Memory specification can not be satisfied\n" + failed +
           "Requested node configuration is not available\n",
       "--mem"},
      {failed + "Requested node configuration is not available\n", "scheduler.nodes"},
      {"sbatch: error: Invalid generic resource (gres) specification\n", "gpus_per_node"},
      {failed + "Invalid job array specification\n", "array.tasks"},
      {failed + "Invalid node name specified\n", "excluded node"},
      {failed + "Requested reservation is invalid\n", "--reservation"},
      {failed + "Invalid license specification\n", "--licenses"},
      {failed + "Invalid feature specification\n", "--constraint"},
      {"sbatch: unrecognized option '--bogus'\nTry \"sbatch --help\" for more information\n",
       "scheduler.extra"},
      {"sbatch: error: Unable to open file /x.sh\n", "rights"},
      {"sbatch: error: s_p_parse_file: cannot stat file /x: No such file or directory, retrying in "
       "1sec up to 60sec\nsbatch: error: ClusterName needs to be specified\nsbatch: fatal: Unable "
       "to process configuration file\n",
       "SLURM_CONF"},
      {failed + "Job violates accounting/QOS policy (job submit limit, user's size and/or time "
                "limits)\n",
       "raised"}};
  for (const auto& refusal : captured) {  // clang 14 captures no structured binding
    const auto& said = refusal.first;
    const auto& advice = refusal.second;
    const auto judged = judge_submit(*says("", said, 1));
    const auto& error = std::get<core::PortError>(judged);
    CHECK_MESSAGE(error.certainty == core::Certainty::Definite, said);
    CHECK_MESSAGE(error.error.hint.find(advice) != std::string::npos, said);
  }
  CHECK(std::get<core::PortError>(
            judge_submit(
                *says("", failed + "Unable to contact slurm controller (connect failure)\n", 1)))
            .certainty == core::Certainty::Definite);
  CHECK(leaves_too_few_nodes(
      *says("", "allocation failure: Requested node configuration is not available\n", 1)));
  CHECK(!leaves_too_few_nodes(
      *says("",
            "sbatch: Job 863244 to start at 2026-11-22T14:22:22 using 2 processors on nodes "
            "n[04-05] in partition main\n")));
  CHECK(!leaves_too_few_nodes(*says("", "allocation failure: Invalid node name specified\n", 1)));
}

TEST_CASE("sbatch: every documented error of a submission -> Definite, with what to do") {
  using stoker::slurm::testing::says;
  std::ifstream file(STOKER_SOURCE_DIR "/tests/slurm/submission_errors.txt");
  int count = 0;
  for (std::string text; std::getline(file, text);) {
    if (text.starts_with('#')) continue;
    ++count;
    const auto judged = judge_submit(
        *says("", fmt::format("sbatch: error: Batch job submission failed: {}\n", text), 1));
    const auto& error = std::get<core::PortError>(judged);
    CHECK_MESSAGE(error.certainty == core::Certainty::Definite, text);
    CHECK_MESSAGE(!error.error.hint.empty(), text);
  }
  CHECK(count > 60);
}

TEST_CASE("scontrol: records of an array -> details; damaged -> error") {
  const auto records = parse_job_details(
      "JobId=124 ArrayJobId=123 ArrayTaskId=1 JobName=tr11 UserId=u(1000) Restarts=2 "
      "JobState=FAILED Reason=NonZeroExitCode ExitCode=137:0 DerivedExitCode=0:0 "
      "ExcNodeList=n[052-053] Command=/gpfs/tr11/run/batch/tr11-42-0badcafe.sh \n"
      "JobId=123 ArrayJobId=123 ArrayTaskId=2-10%1 JobName=tr11 JobState=PENDING "
      "Reason=JobArrayTaskLimit ExitCode=0:0 ExcNodeList=(null) Command=(null)\n");
  REQUIRE(records);
  REQUIRE(records->size() == 2);
  CHECK((*records)[0].id == JobId{123, 1});
  CHECK((*records)[0].restarts == 2);
  CHECK((*records)[0].exit_code == 137);
  CHECK((*records)[0].excluded == "n[052-053]");
  CHECK(token_of_command((*records)[0].command).text == "tr11-42-0badcafe");
  CHECK((*records)[1].id == JobId{123, 0});  // "2-10%1" is no single task
  CHECK((*records)[1].excluded.empty());
  CHECK(token_of_command("/home/u/own.sh").empty());
  CHECK(token_of_command("/x/batch/a/b.sh").empty());
  CHECK(!parse_job_details("JobName=x JobState=RUNNING\n"));
  CHECK(!parse_job_details("JobId=1 JobState=LÄUFT\n"));
}

TEST_CASE("client call: SLURM's variables -> dropped but SLURM_CONF; English, seconds") {
  const auto e = clean_environment({{"SQUEUE_PARTITION", "x"},
                                    {"SLURM_MEM_PER_NODE", "1"},
                                    {"SBATCH_EXPORT", "NONE"},
                                    {"SLURM_CONF", "/c"},
                                    {"SINFO_FORMAT", "y"},
                                    {"HOME", "/h"},
                                    {"LC_ALL", "de_DE"},
                                    {"SLURM_TIME_FORMAT", "relative"}});
  CHECK(e ==
        std::map<std::string, std::string>{
            {"SLURM_CONF", "/c"}, {"HOME", "/h"}, {"LC_ALL", "C"}, {"SLURM_TIME_FORMAT", "%s"}});
}

TEST_CASE("numbers: squeue -O of 22.05.8 (wait status) and code:signal of others -> both read") {
  const auto numbers = parse_numbers(
      "38387858                                0           1792        \n"
      "38387859_12                             3           9           \n"
      "38387860_1                              0           2:15        \n");
  REQUIRE(numbers);
  CHECK(numbers->at({38387858, 0}).exit_code == 7);
  CHECK(numbers->at({38387859, 12}).signal == 9);
  CHECK(numbers->at({38387859, 12}).restarts == 3);
  CHECK(numbers->at({38387860, 1}).exit_code == 2);
  CHECK(numbers->at({38387860, 1}).signal == 15);
  CHECK(parse_numbers("")->empty());
  CHECK(!parse_numbers("38387858 0 17"));
  CHECK(!parse_numbers("slurm_load_jobs error\n"));
}
