// Several clusters with one slurmdbd: which one commands act on, and where a job may land.
#include <algorithm>
#include <doctest/doctest.h>

#include "scripted_cluster.hpp"
#include "slurm/client_call.hpp"
#include "slurm/slurm_scheduler.hpp"
#include "slurm/submit_answer.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;

namespace {

// The scheduler of a daemon that has seen the queue once.
struct Site {
  ScriptedProcesses processes;
  MemoryFiles files;
  SlurmOptions options{"alice", {{"PATH", "/usr/bin"}}, 60s, 45s, [] { return Instant{}; }};

  explicit Site(const std::string& federation, const std::string& cluster = "") {
    processes.answers["squeue"] = {says("")};
    processes.answers["sinfo"] = {says("n001\x1fidle\x1fnone\n")};
    processes.answers["scontrol"] = {
        says("Configuration data as of now\nAccountingStorageType = accounting_storage/slurmdbd\n"
             "ClusterName = jean\nMaxArraySize = 1001\n"),
        says(federation), says("")};
    options.cluster = cluster;
  }

  core::PortResult<JobId> submit(std::uint32_t tasks, const std::string& answer) {
    SlurmScheduler scheduler(processes, files, options);
    REQUIRE(scheduler.observe({RunName("tr11")}));
    processes.answers["sbatch"] = {says(answer)};
    core::SubmitRequest request = example_request();
    request.submit.array_tasks = tasks;
    return scheduler.submit(request);
  }

  [[nodiscard]] const os::SpawnOptions* last(const std::string& command) const {
    const auto found = std::find_if(processes.calls.rbegin(), processes.calls.rend(),
                                    [&](const auto& call) { return call.argv.front() == command; });
    return found == processes.calls.rend() ? nullptr : &*found;
  }
  [[nodiscard]] std::string cluster_of(const std::string& command) const {
    const auto* call = last(command);
    REQUIRE(call != nullptr);
    const auto found = call->environment.find("SLURM_CLUSTERS");
    return found == call->environment.end() ? "" : found->second;
  }
};

const char* const kAlliance = "Federation: alliance\nSelf:       jean:127.0.0.1:18638 ID:1\n";

}  // namespace

TEST_CASE("clusters: a call on another cluster -> by the variable, sacct by its option") {
  const std::map<std::string, std::string> ours{{"PATH", "/usr/bin"}, {"SLURM_CLUSTERS", "mine"}};
  CHECK(client_call({"squeue", "-h"}, ours).environment.count("SLURM_CLUSTERS") == 0);
  const auto squeue = client_call({"squeue", "-h"}, ours, "zay");
  CHECK(squeue.environment.at("SLURM_CLUSTERS") == "zay");
  CHECK(squeue.argv == std::vector<std::string>{"squeue", "-h"});
  const auto sacct = client_call({"sacct", "-X"}, ours, "zay");
  CHECK(sacct.argv == std::vector<std::string>{"sacct", "--clusters=zay", "-X"});
}

TEST_CASE("clusters: questions -> of this cluster alone; sbatch and its job -> nothing of that") {
  const auto has = [](const char* command, const char* variable) {
    return client_call({command}, {}).environment.count(variable) == 1;
  };
  CHECK(has("squeue", "SQUEUE_LOCAL"));
  CHECK(has("sinfo", "SINFO_LOCAL"));
  CHECK(has("scontrol", "SCONTROL_LOCAL"));
  CHECK(has("sacct", "SACCT_LOCAL"));
  CHECK(client_call({"sbatch"}, {}).environment ==
        std::map<std::string, std::string>{{"LC_ALL", "C"}, {"SLURM_TIME_FORMAT", "%s"}});
}

TEST_CASE("clusters: a federation -> a single job stays here, an array does by itself") {
  Site single(kAlliance);
  CHECK(std::get<JobId>(single.submit(1, "123;jean\n")) == JobId{123, 0});
  CHECK(single.cluster_of("sbatch") == "jean");
  Site array(kAlliance);
  CHECK(std::get<JobId>(array.submit(4, "123\n")) == JobId{123, 0});
  CHECK(array.cluster_of("sbatch").empty());
  Site alone("");
  CHECK(std::get<JobId>(alone.submit(1, "123\n")) == JobId{123, 0});
  CHECK(alone.cluster_of("sbatch").empty());
}

TEST_CASE("clusters: scheduler.cluster -> every call acts there") {
  Site site("", "zay");
  CHECK(std::get<JobId>(site.submit(4, "123;zay\n")) == JobId{123, 0});
  for (const char* command : {"sbatch", "squeue", "sinfo", "scontrol"})
    CHECK_MESSAGE(site.cluster_of(command) == "zay", command);
}

TEST_CASE("clusters: a site's sbatch names the usual cluster -> taken as it is") {
  Site site("");
  CHECK(std::get<JobId>(site.submit(4, "Welcome\n123;jean\n")) == JobId{123, 0});
  CHECK(site.last("scancel") == nullptr);
  Site named("", "Zay");
  CHECK(std::get<JobId>(named.submit(4, "123;zay\n")) == JobId{123, 0});
}

TEST_CASE("clusters: sbatch put the job elsewhere -> taken back and refused, or unknown") {
  Site site("");
  site.processes.answers["scancel"] = {says("")};
  const auto refused = std::get<core::PortError>(site.submit(1, "123;zay\n"));
  CHECK(refused.certainty == core::Certainty::Definite);
  CHECK(refused.error.hint.find("scheduler.cluster: zay") != std::string::npos);
  CHECK(site.cluster_of("scancel") == "zay");
  CHECK(site.last("scancel")->argv == std::vector<std::string>{"scancel", "123"});
  Site stuck("");
  stuck.processes.answers["scancel"] = {says("", "scancel: error: no contact\n", 1)};
  CHECK(std::get<core::PortError>(stuck.submit(1, "123;zay\n")).certainty ==
        core::Certainty::Unknown);
}

TEST_CASE("clusters: no slurmdbd, an unknown name, as 22.05.8 says it -> Definite, what to do") {
  const auto judged = [](const std::string& text) {
    return std::get<core::PortError>(judge_submit(*says("", text, 1)));
  };
  const auto away = judged(
      "sbatch: error: Sending PersistInit msg: Connection refused\n"
      "sbatch: error: DBD_GET_CLUSTERS failure: Connection refused\n"
      "sbatch: error: Problem talking to database\n"
      "sbatch: error: There is a problem talking to the database: Connection refused.  Only local "
      "cluster communication is available, remove --cluster from your command line or contact your "
      "admin to resolve the problem.\n");
  CHECK(away.certainty == core::Certainty::Definite);
  CHECK(away.error.hint.find("tried again") != std::string::npos);
  const auto unknown = judged(
      "sbatch: error: No cluster 'nosuch' known by database.\n"
      "sbatch: error: 'nosuch' can't be reached now, or it is an invalid entry for --cluster.  Use "
      "'sacctmgr list clusters' to see available clusters.\n");
  CHECK(unknown.certainty == core::Certainty::Definite);
  CHECK(unknown.error.hint.find("scheduler.cluster") != std::string::npos);
}
