// SLURM's own view of a job's steps; texts of Debian's 22.05.8.
#include "slurm/job_steps.hpp"

#include <doctest/doctest.h>

#include "scripted_cluster.hpp"
#include "slurm/slurm_scheduler.hpp"
#include "wire/probe_answer.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;

namespace {

const std::string kListed =
    "34228748_1.0\x1fn[01-02]\x1fsleep\n"
    "34228748_1.batch\x1fn01\x1f"
    "batch\n";
const std::string kShown =
    "StepId=34228748_1.batch UserId=1001 StartTime=2026-11-22T17:58:46 TimeLimit=UNLIMITED "
    "State=RUNNING Partition=main NodeList=n01 Nodes=1 CPUs=0 Tasks=1 Name=batch Network=(null) "
    "TRES=(null) ResvPorts=(null) CPUFreqReq=Default SrunHost:Pid=(null):0\n"
    "StepId=34228748_1.0 UserId=1001 StartTime=2026-11-22T17:58:46 TimeLimit=UNLIMITED "
    "State=RUNNING Partition=main NodeList=n[01-02] Nodes=2 CPUs=2 Tasks=2 Name=sleep "
    "Network=(null) TRES=cpu=2,mem=0,node=2 ResvPorts=(null) CPUFreqReq=Default Dist=Cyclic "
    "SrunHost:Pid=vm:8202\n";
const std::string kBatch =
    "123_1.batch\x1fn001\x1f"
    "batch\n";
const std::string kBatchShown = "StepId=123_1.batch UserId=1 NodeList=n001 Name=batch\n";

// Every squeue but the one for steps shows the job running on `nodes`.
struct Fixture {
  ScriptedProcesses processes;
  MemoryFiles files;
  WallTime wall{};
  SlurmOptions options{"alice", {{"PATH", "/usr/bin"}},   60s,
                       45s,     [] { return Instant{}; }, [this] { return wall; }};
  SlurmScheduler scheduler{processes, files, options};
  core::ProbeRequest request{
      {Token("tr11-42-0badcafe"), JobId{123, 1}, {}}, {"/sw/stoker-agent"}, ""};

  static std::string mine(const std::string& nodes, const std::string& state = "RUNNING") {
    return row({"124", "123", "1", state, "None", "1700000000", "1700072000", "1699990000", nodes,
                "1000", "alice", "/gpfs/tr11/run/batch/tr11-42-0badcafe.sh", "tr11",
                "tr11-42-0badcafe"});
  }
  core::JobProbed steps(const Result<os::CommandOutput>& listed,
                        const Result<os::CommandOutput>& shown,
                        const std::string& nodes = "n[001-003]") {
    processes.answers["squeue"] = {says(mine(nodes)), listed};
    processes.answers["scontrol"] = {shown};
    return scheduler.probe(request);
  }
};

}  // namespace

TEST_CASE("job steps: squeue -s and scontrol show step -> the same steps") {
  const auto listed = parse_steps(kListed);
  const auto shown = parse_step_records(kShown);
  REQUIRE(listed);
  REQUIRE(shown);
  REQUIRE(listed->size() == 2);
  REQUIRE(shown->size() == 2);
  CHECK(listed->at(0).text() == "34228748_1.0");
  CHECK(listed->at(0).nodes.size() == 2);
  CHECK(shown->at(0).step == "batch");
  CHECK(shown->at(0).nodes == std::vector<NodeName>{NodeName("n01")});
  CHECK(shown->at(1).name == "sleep");
  CHECK(parse_steps("")->empty());
}

TEST_CASE("job steps: torn, foreign and hostile lines -> errors, never fewer steps") {
  for (const char* text : {"Bienvenue\n", "1.0",
                           "1.0\x1fn01\x1f"
                           "a\n2",
                           "x.0\x1fn01\x1f"
                           "a\n",
                           "1_\x1fn01\x1f"
                           "a\n",
                           "1.0\x1fn[01\x1f"
                           "a\n",
                           "1_2x.0\x1fn01\x1f"
                           "a\n"})
    CHECK(!parse_steps(text));
  for (const char* text : {"Bienvenue\n", "StepId=1 Name=a\n", "StepId=1.0 NodeList=n[1 Name=a\n",
                           "StepId=1.0 NodeList=n1 Name=a"})
    CHECK(!parse_step_records(text));
}

TEST_CASE("probe: only the batch script's step -> no steps; its node lost -> batch_left") {
  Fixture f;
  const auto gone = f.steps(says(kBatch), says(kBatchShown));
  CHECK(gone.told);
  CHECK(gone.steps.empty());
  CHECK(!gone.batch_left);
  const auto left = f.steps(says(kBatch + "123_1.0\x1fn[001-003]\x1fstoker-agent\n"),
                            says(kBatchShown), "n[002-003]");
  CHECK(left.told);
  CHECK(left.batch_left);
  CHECK(left.steps == std::vector<std::string>{"123_1.0"});
}

TEST_CASE("probe: our own probe's step does not count, the agents' does, from any source") {
  Fixture f;
  CHECK(
      f.steps(says(kBatch + "123_1.1\x1fn001\x1fstoker-probe\n"), says(kBatchShown)).steps.empty());
  CHECK(f.steps(says(kBatch), says(kBatchShown + "StepId=123_1.0 NodeList=n001 Name=python\n"))
            .steps.size() == 1);
}

TEST_CASE("probe: failed, torn, contradicting answers, a job that is not shown -> unknown") {
  Fixture f;
  const auto failed = says("", "slurm_get_job_steps error: Socket timed out\n", 1);
  CHECK(!f.steps(failed, says(kBatchShown)).told);
  CHECK(!f.steps(says(kBatch), failed).told);
  CHECK(!f.steps(says(kBatch.substr(0, 5)), says(kBatchShown)).told);
  CHECK(!f.steps(says(""), says(kBatchShown)).told);
  CHECK(!f.steps(says(kBatch), says("")).told);
  CHECK(!f.steps(fail("timed out after 60s", "squeue"), says(kBatchShown)).told);
  f.processes.answers["squeue"] = {says("")};
  CHECK(!f.scheduler.probe(f.request).told);
  f.processes.answers["squeue"] = {says(Fixture::mine("n001", "COMPLETING"))};
  CHECK(!f.scheduler.probe(f.request).told);
}

TEST_CASE(
    "probe: inside -> srun --overlap by the task's raw id; an old answer counts for nothing") {
  Fixture f;
  f.request.probe.nodes = {NodeName("n001"), NodeName("n002"), NodeName("n009")};
  f.request.folder = "/gpfs/tr11/run/stacks/a";
  f.wall = WallTime(7ns);
  f.processes.answers["srun"] = {fail("timed out after 60s", "srun")};
  const auto leave = [&](const char* node, const char* question, std::uint32_t processes) {
    f.files.content[f.request.folder + "/" + node + ".probe"] =
        to_json_text(wire::ProbeAnswer{question, node, processes, processes});
  };
  leave("n001", "7", 2);
  leave("n002", "6", 0);
  const auto probed = f.steps(says(kBatch), says(kBatchShown));
  CHECK(probed.asked == 2);  // n009 is none of the job's
  CHECK(probed.answered == 1);
  CHECK(probed.processes == 2);
  CHECK(probed.mute == std::vector<NodeName>{NodeName("n002")});
  CHECK(!probed.stacks.empty());
  CHECK(probed.why.find("timed out") != std::string::npos);
  const auto& argv = f.processes.calls.back().argv;
  CHECK(argv[1] == "--overlap");
  CHECK(argv[2] == "--jobid=124");
  CHECK(std::find(argv.begin(), argv.end(), "--nodelist=n[001-002]") != argv.end());
  CHECK(f.processes.calls.back().environment.count("SLURM_MEM_PER_NODE") == 0);
}

TEST_CASE("probe: what a node left that is no answer -> none") {
  Fixture f;
  f.request.probe.nodes = {NodeName("n001")};
  f.request.folder = "/s";
  f.processes.answers["srun"] = {says("")};
  for (const char* text : {"", "{}", "[]", "{\"question\": 7}", "\xff\xfe"}) {
    f.files.content["/s/n001.probe"] = text;
    CHECK(f.steps(says(kBatch), says(kBatchShown)).answered == 0);
  }
}
