// The Scheduler port over scripted commands: never twice, never somebody else's job, never dead
// because unseen.
#include "slurm/slurm_scheduler.hpp"

#include <doctest/doctest.h>

#include "scripted_scheduler.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;
using core::Certainty;
using core::JobState;

namespace {

const char* const kGone = "slurm_load_jobs error: Invalid job id specified\n";

struct Fixture : ScriptedScheduler {
  static std::string mine(const std::string& state, const std::string& task = "1",
                          const std::string& comment = "tr11-42-0badcafe") {
    return row({"124", "123", task, state, "None", "1700000000", "1700072000", "1699990000",
                state == "PENDING" ? "" : "n[001-003]", "1000", "alice",
                "/gpfs/tr11/run/batch/tr11-42-0badcafe.sh", "tr11", comment});
  }
  Certainty certainty(const core::PortResult<JobId>& result) {
    return std::get<core::PortError>(result).certainty;
  }
};

}  // namespace

TEST_CASE("slurm submit: fresh token -> script written, sbatch called with it, id") {
  Fixture f;
  f.processes.answers["sbatch"] = {says("123\n")};
  CHECK(std::get<JobId>(f.scheduler.submit(example_request())) == JobId{123, 0});
  const auto& call = f.processes.calls.back();
  CHECK(call.argv == std::vector<std::string>{"sbatch", "--parsable",
                                              "/gpfs/tr11/run/batch/tr11-42-0badcafe.sh"});
  CHECK(f.files.content.at(call.argv.back()).find("--array=1-10%1") != std::string::npos);
}

TEST_CASE("slurm submit: token already in the queue -> its id, no second sbatch") {
  Fixture f;
  f.processes.answers["squeue"] = {says(Fixture::mine("PENDING"))};
  CHECK(std::get<JobId>(f.scheduler.submit(example_request())) == JobId{123, 0});
  CHECK(f.processes.count("sbatch") == 0);
}

TEST_CASE("slurm submit: comment rewritten by the site -> found by the script's path") {
  Fixture f;
  f.processes.answers["squeue"] = {says(Fixture::mine("PENDING", "1", "charged: six"))};
  CHECK(std::get<JobId>(f.scheduler.submit(example_request())) == JobId{123, 0});
  CHECK(f.processes.count("sbatch") == 0);
}

TEST_CASE("slurm submit: queue not visible -> Definite, nothing submitted") {
  Fixture f;
  f.processes.answers["squeue"] = {says("", "slurm_load_jobs error: Unable to contact\n", 1)};
  CHECK(f.certainty(f.scheduler.submit(example_request())) == Certainty::Definite);
  CHECK(f.processes.count("sbatch") == 0);
}

TEST_CASE("slurm submit: sbatch times out -> Unknown; not installed -> Definite") {
  Fixture f;
  CHECK(f.certainty(f.scheduler.submit(example_request())) == Certainty::Definite);
  f.processes.answers["sbatch"] = {fail("timed out after 60s", "sbatch")};
  CHECK(f.certainty(f.scheduler.submit(example_request())) == Certainty::Unknown);
}

TEST_CASE("slurm submit: squeue empty although scontrol shows the token -> nothing submitted") {
  Fixture f;
  f.processes.answers["scontrol"] = {says("JobId=123 JobName=tr11 Comment=tr11-42-0badcafe\n")};
  CHECK(f.certainty(f.scheduler.submit(example_request())) == Certainty::Definite);
  CHECK(f.processes.count("sbatch") == 0);
}

TEST_CASE("slurm observe: running and failed tasks -> as SLURM says, numbers asked once for all") {
  Fixture f;
  f.processes.answers["squeue"] = {
      says(Fixture::mine("FAILED") + Fixture::mine("PENDING", "2")),
      says("123_1                 3           2304        \n123_2           0           0    \n"),
      says(Fixture::mine("FAILED") + Fixture::mine("PENDING", "2"))};
  const auto view = f.scheduler.observe({RunName("tr11")});
  REQUIRE(view);
  REQUIRE(view->jobs.size() == 2);
  CHECK(view->jobs[0].job == JobId{123, 1});
  CHECK(view->jobs[0].token == f.token);
  CHECK(view->jobs[0].state == JobState::Failed);
  CHECK(view->jobs[0].exit_code == 9);
  CHECK(view->jobs[0].signal == 0);
  CHECK(view->jobs[0].restart == 3);
  CHECK(view->jobs[1].state == JobState::Pending);
  CHECK(view->nodes.size() == 1);
  CHECK(f.processes.count("squeue") == 2);
  REQUIRE(f.scheduler.observe({RunName("tr11")}));
  CHECK(f.processes.count("squeue") == 3);
  CHECK(f.processes.count("sinfo") == 2);
}

TEST_CASE("slurm submit: an excluded node that the cluster does not know -> left out") {
  Fixture f;
  REQUIRE(f.scheduler.observe({RunName("tr11")}));  // learns n001
  core::SubmitRequest request = example_request();
  request.submit.exclude = {NodeName("n001"), NodeName("gone7")};
  f.processes.answers["sbatch"] = {says("123\n")};
  CHECK(std::get<JobId>(f.scheduler.submit(request)) == JobId{123, 0});
  const std::string& script = f.files.content.begin()->second;
  CHECK(script.find("--exclude=n001\n") != std::string::npos);
}

TEST_CASE(
    "slurm observe: a job that SLURM denies twice, a minute apart -> gone; once or hidden -> not") {
  Fixture f;
  f.scheduler.expect({{f.token, {123, 0}}});
  const auto look = [&f](const Result<os::CommandOutput>& detail) {
    f.processes.answers["scontrol"] = {detail, says(kConfig)};
    const auto view = f.scheduler.observe({RunName("tr11")});
    REQUIRE(view);
    return view->gone.size();
  };
  f.processes.answers["scontrol"] = {says(kConfig)};
  f.scheduler.expect({});
  REQUIRE(f.scheduler.observe({RunName("tr11")}));  // learns the cluster's name
  f.scheduler.expect({{f.token, {123, 0}}});
  CHECK(look(says("", kGone, 1)) == 0);
  f.now += 30s;
  CHECK(look(says("", kGone, 1)) == 0);
  f.now += 31s;
  CHECK(look(says("", "slurm_load_jobs error: Unable to contact\n", 1)) == 0);
  CHECK(look(says("JobId=123 JobName=tr11 JobState=RUNNING Comment=tr11-42-0badcafe\n")) == 0);
  f.now += 61s;
  CHECK(look(says("", kGone, 1)) == 0);  // counted from zero: it had been there
  f.now += 61s;
  CHECK(look(says("", kGone, 1)) == 1);
  f.now += 61s;
  f.processes.answers["scontrol"] = {says("", kGone, 1), says("x\nClusterName = other\n")};
  CHECK(f.scheduler.observe({RunName("tr11")})->gone.empty());  // another cluster answers
}

TEST_CASE("slurm: the comment of an adopted script's job is changed -> still ours, and cancelled") {
  Fixture f;
  const auto named = [](const std::string& name, const std::string& command) {
    return says(row({"123", "123", "N/A", "RUNNING", "None", "1700000000", "1700072000",
                     "1699990000", "n001", "1000", "alice", command, name, "theirs"}));
  };
  const core::Cancel cancel{f.token, {123, 1}};
  f.scheduler.expect({{f.token, {123, 0}}});
  const auto ours = named("tr11", "/home/alice/tr11.slurm");
  f.processes.answers["squeue"] = {ours, says("123 0 0\n"), ours};
  f.processes.answers["scancel"] = {says("")};
  const auto view = f.scheduler.observe({RunName("tr11")}).value();
  CHECK(view.gone.empty());
  REQUIRE(view.jobs.size() == 1);
  CHECK(view.jobs[0].token == f.token);
  CHECK(std::holds_alternative<std::monostate>(f.scheduler.cancel(cancel)));
  CHECK(f.processes.calls.back().argv == std::vector<std::string>{"scancel", "123"});
  for (const auto& other : {named("x", "/home/alice/tr11.slurm"),
                            named("tr11", "/gpfs/tr11/run/batch/tr11-43-0badcafe.sh")}) {
    f.processes.answers["squeue"] = {other};
    CHECK(std::holds_alternative<std::monostate>(f.scheduler.cancel(cancel)));
    CHECK(f.processes.count("scancel") == 1);
  }
}

TEST_CASE("slurm observe: id given away to another job -> gone at once") {
  Fixture f;
  REQUIRE(f.scheduler.observe({RunName("tr11")}));
  f.scheduler.expect({{f.token, {123, 0}}});
  f.processes.answers["scontrol"] = {says("JobId=123 JobName=x JobState=RUNNING Comment=other\n")};
  const auto view = f.scheduler.observe({RunName("tr11")});
  REQUIRE(view);
  REQUIRE(view->gone.size() == 1);
  CHECK(view->gone[0].why == "its id 123 belongs to another job now");
}

TEST_CASE("slurm budget: 50 runs over an hour, all kinds of questions -> at most 120") {
  Fixture f;
  std::vector<RunName> runs;
  std::string rows;
  for (int i = 0; i < 50; ++i) runs.emplace_back("tr" + std::to_string(i));
  std::size_t looks = 0;
  for (Instant end = f.now + 1h; f.now < end; ++looks) {
    f.processes.answers["squeue"] = {says("")};  // edges on every look: the worst case
    REQUIRE(f.scheduler.observe(runs));
    f.now += std::max<Duration>(15s, f.scheduler.rest());
  }
  CHECK(looks >= 80);
  CHECK(f.processes.calls.size() <= 120);
}

TEST_CASE("slurm observe: failed, slow, torn or foreign answers -> errors, never an empty view") {
  Fixture f;
  const std::string good = Fixture::mine("RUNNING");
  for (const auto& answer :
       {says("", "error: Socket timed out\n", 1), says(good.substr(0, 40)), says("Bienvenue\n"),
        Result<os::CommandOutput>(fail("timed out after 60s", "squeue"))}) {
    f.processes.answers["squeue"] = {answer};
    CHECK(!f.scheduler.observe({RunName("tr11")}));
  }
}

TEST_CASE("slurm cancel: id with our token -> scancel of the task, or of what is pending") {
  Fixture f;
  f.processes.answers["squeue"] = {says(Fixture::mine("PENDING"))};
  f.processes.answers["scancel"] = {says("")};
  CHECK(std::holds_alternative<std::monostate>(
      f.scheduler.cancel({f.token, {123, 1}, false, false})));
  CHECK(f.processes.calls.back().argv == std::vector<std::string>{"scancel", "123_1"});
  (void)f.scheduler.cancel({f.token, {123, 1}, true, true});
  CHECK(f.processes.calls.back().argv ==
        std::vector<std::string>{"scancel", "--state=PENDING", "123"});
  f.processes.answers["squeue"] = {says(Fixture::mine("CANCELLED")), says("123_1 0 0\n")};
  CHECK(f.scheduler.observe({RunName("tr11")})->jobs.at(0).cancelled_by_us);
}

TEST_CASE("slurm cancel: id given away to another token, or gone -> success, nothing cancelled") {
  Fixture f;
  f.processes.answers["scontrol"] = {
      says("", "slurm_load_jobs error: Invalid job id specified\n", 1)};
  f.processes.answers["scancel"] = {says("")};
  f.processes.answers["squeue"] = {says(Fixture::mine("PENDING", "1", "tr11-43-ffffffff"))};
  CHECK(
      std::holds_alternative<std::monostate>(f.scheduler.cancel({f.token, {123, 1}, true, false})));
  f.processes.answers["squeue"] = {
      says("", "slurm_load_jobs error: Invalid job id specified\n", 1)};
  CHECK(
      std::holds_alternative<std::monostate>(f.scheduler.cancel({f.token, {123, 1}, true, false})));
  CHECK(f.processes.count("scancel") == 0);
}

TEST_CASE("slurm cancel: an answer about others' jobs does not make ours gone") {
  Fixture f;
  f.processes.answers["squeue"] = {says(Fixture::mine("RUNNING", "1", "other-1-ffffffff"))};
  const std::string before = f.processes.answers["squeue"].front()->out;
  std::string foreign = before;
  for (auto at = foreign.find("123"); at != std::string::npos; at = foreign.find("123", at))
    foreign.replace(at, 3, "777");
  f.processes.answers["squeue"] = {says(foreign)};
  f.processes.answers["scontrol"] = {
      says("JobId=123 ArrayJobId=123 ArrayTaskId=2-10%1 JobName=tr11 JobState=PENDING "
           "ExcNodeList=(null) Command=/runs/tr11/batch/tr11-42-0badcafe.sh\n")};
  const auto answer = f.scheduler.cancel({f.token, {123, 0}, true, true});
  REQUIRE(std::holds_alternative<core::PortError>(answer));
  CHECK(std::get<core::PortError>(answer).error.message().find("scontrol shows") !=
        std::string::npos);
  CHECK(f.processes.count("scancel") == 0);
}

TEST_CASE(
    "slurm exclusions: exit 1 but the pending tasks changed -> success; not changed -> error") {
  Fixture f;
  f.processes.answers["squeue"] = {says(Fixture::mine("PENDING"))};
  const std::string records =
      "JobId=124 ArrayJobId=123 ArrayTaskId=1 JobName=tr11 JobState=RUNNING ExcNodeList=(null)\n"
      "JobId=123 ArrayJobId=123 ArrayTaskId=2-10%1 JobName=tr11 JobState=PENDING ExcNodeList=";
  f.processes.answers["scontrol"] = {says("", "123_1: Job is no longer pending execution\n", 1),
                                     says(records + "n[01-02]\n")};
  const core::SetExclusions change{f.token, {123, 0}, {NodeName("n02"), NodeName("n01")}};
  CHECK(std::holds_alternative<std::monostate>(f.scheduler.set_exclusions(change)));
  f.processes.answers["scontrol"] = {says(""), says(records + "n07\n")};
  CHECK(std::holds_alternative<core::PortError>(f.scheduler.set_exclusions(change)));
}

TEST_CASE("slurm signal: to the steps of our own job, never to another's") {
  Fixture f;
  const core::SignalJob signal{f.token, {123, 1}, "USR1"};
  f.processes.answers["squeue"] = {says(Fixture::mine("COMPLETED"))};
  CHECK(std::holds_alternative<std::monostate>(f.scheduler.signal(signal)));
  f.processes.answers["squeue"] = {says(Fixture::mine("RUNNING", "1", "tr11-43-0badcafe"))};
  CHECK(std::holds_alternative<std::monostate>(f.scheduler.signal(signal)));
  CHECK(f.processes.count("scancel") == 0);
  f.processes.answers["squeue"] = {says(Fixture::mine("RUNNING"))};
  f.processes.answers["scancel"] = {says("")};
  CHECK(std::holds_alternative<std::monostate>(f.scheduler.signal(signal)));
  CHECK(f.processes.calls.back().argv ==
        std::vector<std::string>{"scancel", "--signal=USR1", "123_1"});
}

TEST_CASE("slurm: a job outside an array is its own first task, and SLURM gets its bare id") {
  Fixture f;
  f.processes.answers["squeue"] = {
      says(row({"124", "124", "N/A", "RUNNING", "None", "1700000000", "1700072000", "1699990000",
                "n001", "1000", "alice", "/home/alice/tr11.slurm", "tr11", "tr11-42-0badcafe"})),
      says("124   0   0\n")};
  const auto view = f.scheduler.observe({RunName("tr11")});
  REQUIRE(view);
  REQUIRE(view->jobs.size() == 1);
  CHECK(view->jobs[0].job == JobId{124, 1});
  f.processes.answers["squeue"] = {
      says(row({"124", "124", "N/A", "RUNNING", "None", "1700000000", "1700072000", "1699990000",
                "n001", "1000", "alice", "/home/alice/tr11.slurm", "tr11", "tr11-42-0badcafe"}))};
  f.processes.answers["scancel"] = {says("")};
  CHECK(std::holds_alternative<std::monostate>(
      f.scheduler.cancel(core::Cancel{f.token, {124, 1}, false, false})));
  CHECK(f.processes.calls.back().argv == std::vector<std::string>{"scancel", "124"});
}

TEST_CASE("slurm submit: only the exclusions leave too few nodes -> reported, nothing submitted") {
  Fixture f;
  core::SubmitRequest request = example_request();
  request.policy.scheduler.exclude = {NodeName("n053")};  // RUN.yaml's own, which stays
  const auto no =
      says("", "allocation failure: Requested node configuration is not available\n", 1);
  const auto yes = says("", "sbatch: Job 5 to start at 2026-11-22T14:22:22 using 2 processors\n");
  f.processes.answers["sbatch"] = {no, yes};
  const auto starved = f.scheduler.submit(request);
  CHECK(std::get<core::PortError>(starved).starved);
  CHECK(f.certainty(starved) == Certainty::Definite);
  CHECK(f.processes.count("sbatch") == 2);
  for (const auto& call : f.processes.calls)
    if (call.argv.front() == "sbatch") {  // refused tries stay in the queue: never with the token
      CHECK(std::find(call.argv.begin(), call.argv.end(), "--test-only") != call.argv.end());
      CHECK(std::find(call.argv.begin(), call.argv.end(), "--comment=stoker-test") !=
            call.argv.end());
    }
  CHECK(f.files.content.begin()->second.find("--exclude=n053\n") != std::string::npos);

  f.processes.answers["sbatch"] = {no, no, says("123\n")};  // too large with all nodes, too
  CHECK(std::get<JobId>(f.scheduler.submit(request)) == JobId{123, 0});
  CHECK(f.files.content.begin()->second.find("--exclude=n[052-053]\n") != std::string::npos);

  f.processes.answers["sbatch"] = {yes, says("124\n")};  // enough nodes
  CHECK(std::get<JobId>(f.scheduler.submit(request)) == JobId{124, 0});
  f.processes.answers["sbatch"] = {fail("timed out after 60s", "sbatch"), says("125\n")};
  CHECK(std::get<JobId>(f.scheduler.submit(request)) == JobId{125, 0});  // not known: submitted
}

TEST_CASE("slurm exclusions: read back as JSON from 23.02 on, as text when that cannot be read") {
  Fixture f;
  const auto config = says("x\nClusterName = jean\nSLURM_VERSION           = 24.05.1\n");
  f.processes.answers["scontrol"] = {config};
  REQUIRE(f.scheduler.observe({RunName("tr11")}));
  f.processes.answers["squeue"] = {says(Fixture::mine("PENDING"))};
  const core::SetExclusions change{f.token, {123, 0}, {NodeName("n001")}};
  const std::string json =
      R"({"jobs": [{"job_id": 123, "job_state": ["PENDING"], "excluded_nodes": "n001"}]})";
  f.processes.answers["scontrol"] = {says(""), says(json)};
  CHECK(std::holds_alternative<std::monostate>(f.scheduler.set_exclusions(change)));
  CHECK(f.processes.calls.back().argv.back() == "--json");
  f.processes.answers["scontrol"] = {
      says(""), says("{\"jobs\": 7}"),
      says("JobId=123 JobState=PENDING ExcNodeList=n001 JobName=tr11\n")};
  CHECK(std::holds_alternative<std::monostate>(f.scheduler.set_exclusions(change)));
  CHECK(f.processes.calls.back().argv.at(3) == "-o");
}

TEST_CASE("slurm: hostile names of jobs and users -> words of an argv, never a shell's") {
  Fixture f;
  const std::string name = "$(touch /tmp/x); `id` \"'|&\x07";
  f.processes.answers["squeue"] = {says(
      Fixture::mine("PENDING") + row({"9", "9", "N/A", "RUNNING", "None", "1", "2", "3", "n001",
                                      "7", "alice", "/gpfs/tr11/run/batch/a b;c.sh", name, name}))};
  f.processes.answers["scancel"] = {says("")};
  core::RunGrounds grounds{RunName("tr11"), {"/gpfs/tr11/run/batch/"}, ""};
  f.scheduler.guard({grounds});
  const auto view = f.scheduler.observe({RunName("tr11")});
  REQUIRE(view);
  CHECK(view->jobs.size() == 1);
  CHECK(view->rivals.at(RunName("tr11")).size() == 1);
  (void)f.scheduler.cancel({f.token, {123, 1}, false, false});
  for (const auto& call : f.processes.calls)
    for (const std::string& word : call.argv) {
      CHECK(word.find("touch") == std::string::npos);
      CHECK(word != "-c");
    }
}

TEST_CASE("slurm: commands missing, not executable, of another cluster, SLURM_CONF wrong") {
  Fixture f;
  f.processes.answers["squeue"] = {fail("command not found in PATH", "squeue")};
  CHECK(f.scheduler.observe({RunName("tr11")}).error().message().find("squeue") !=
        std::string::npos);
  f.processes.answers["squeue"] = {fail("cannot start: Permission denied", "squeue")};
  CHECK(!f.scheduler.observe({RunName("tr11")}));
  f.processes.answers["squeue"] = {
      says("",
           "squeue: error: s_p_parse_file: cannot stat file /x/slurm.conf: No such file or "
           "directory, retrying in 1sec up to 60sec\nsqueue: error: ClusterName needs to be "
           "specified\nsqueue: fatal: Unable to process configuration file\n",
           1)};
  const auto wrong = f.scheduler.observe({RunName("tr11")});
  REQUIRE(!wrong);
  CHECK(wrong.error().message().find("configuration file") != std::string::npos);
  CHECK(f.certainty(f.scheduler.submit(example_request())) == Certainty::Definite);
  CHECK(f.processes.count("sbatch") == 0);
}
