// The Scheduler port over a scripted slurmrestd that has one version of the API.
#pragma once

#include <memory>
#include <string>

#include "scripted_cluster.hpp"
#include "scripted_door.hpp"
#include "slurm/json_shapes.hpp"
#include "slurm/slurm_scheduler.hpp"

namespace stoker::slurm::testing {

inline const std::string kNoJobs = R"({"errors": [], "jobs": []})";

struct RestFixture {
  ScriptedProcesses processes;  // no commands here, unless a test brings them
  MemoryFiles files;
  std::shared_ptr<ScriptedDoor> door;
  Instant now{};
  SlurmOptions options() {
    SlurmOptions options;
    options.user = "alice";
    options.environment = {{"PATH", "/usr/bin"}, {"SLURM_JOB_ID", "7"}};
    options.now = [this] { return now; };
    options.cluster_file = "/state/slurm-cluster";
    options.rest = door;
    return options;
  }
  const int api;
  SlurmScheduler scheduler;
  const Token token{"tr11-42-0badcafe"};
  std::uint64_t array = 0;

  explicit RestFixture(int version = 38)
      : door(std::make_shared<ScriptedDoor>(version)),
        api(version),
        scheduler(processes, files, options()) {
    const auto jobs = parse_json(captured("jobs", api), "jobs");
    for (const Json& job : jobs->at("jobs"))
      if (job.at("name") == "tr11") array = *number_of(job, "array_job_id");
    say("GET jobs", 200, kNoJobs);
    say("GET nodes", 200, captured("nodes", api));
    say("GET job/" + std::to_string(array), 200, captured("job", api));
  }
  void say(const std::string& request, long status, const std::string& body) {
    door->script[request] = {answers(status, body)};
  }
  Result<core::SchedulerView> look() { return scheduler.observe({RunName("tr11")}); }
  core::PortResult<JobId> submit() { return scheduler.submit(example_request()); }
  core::Certainty certainty() { return std::get<core::PortError>(submit()).certainty; }
  void expect_it() {
    scheduler.expect({{token, JobId{array, 0}, WallTime{}}});
    say("GET jobs", 200, captured("jobs", api));
    REQUIRE(look().has_value());  // its jobs name the cluster
  }
};

}  // namespace stoker::slurm::testing
