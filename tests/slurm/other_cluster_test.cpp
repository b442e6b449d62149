// Commands of another cluster: their answers end, cancel and submit nothing.
#include <doctest/doctest.h>

#include "scripted_cluster.hpp"
#include "slurm/slurm_scheduler.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;

TEST_CASE("slurm: another cluster answers -> an error for every question; ours -> as usual") {
  ScriptedProcesses processes;
  MemoryFiles files;
  processes.answers["squeue"] = {says("")};
  processes.answers["sinfo"] = {says("n001\x1fidle\x1fnone\n")};
  processes.answers["scontrol"] = {says("Configuration data as of now\nClusterName = jean\n")};
  processes.answers["sbatch"] = {says("124\n")};
  SlurmOptions options{"alice", {{"PATH", "/usr/bin"}}, 60s, 45s, [] { return Instant{}; }};
  options.cluster_file = "/state/slurm-cluster";
  const auto observed = [&] {  // by a daemon that begins
    SlurmScheduler scheduler(processes, files, options);
    return scheduler.observe({RunName("tr11")});
  };
  CHECK(observed());
  CHECK(files.content.at("/state/slurm-cluster") == "jean");
  CHECK(observed());
  processes.answers["scontrol"] = {says("Configuration data as of now\nClusterName = zay\n")};
  const auto other = observed();
  REQUIRE(!other);
  CHECK(other.error().message().find("the cluster zay answers, but the jobs are on jean") !=
        std::string::npos);
  SlurmScheduler scheduler(processes, files, options);
  const Token token("tr11-42-0badcafe");
  CHECK(std::get<core::PortError>(scheduler.submit(example_request())).certainty ==
        core::Certainty::Definite);
  CHECK(std::holds_alternative<core::PortError>(scheduler.look_up(token)));
  CHECK(std::holds_alternative<core::PortError>(scheduler.cancel({token, {123, 1}, false, false})));
  CHECK(processes.count("sbatch") == 0);
}
