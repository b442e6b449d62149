// Stacks of real processes, and the groups that the lead reports.
#include "worker/agent/rank/stacks.hpp"

#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <future>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/process.hpp"
#include "wire/probe_answer.hpp"
#include "worker/agent/node/node_health.hpp"
#include "worker/agent/rank/job_stacks.hpp"
#include "worker/agent/rank/process_tree.hpp"

using namespace stoker;
using namespace stoker::agent;

TEST_CASE("group_written: one rank elsewhere -> its place; rubbish beside it -> passed over") {
  char name[] = "/tmp/stoker-stacks-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const auto write = [&](const std::string& file, const std::string& text) {
    REQUIRE(os::replace_file(folder + "/" + file, text, os::Durability::Cached));
  };
  const std::string waits = "process 9 train\n  thread 9 train state S wchan poll syscall 7\n";
  for (int rank = 0; rank < 3; ++rank) write("n01." + std::to_string(rank) + ".txt", waits);
  write("n02.3.txt", "process 10 train\n  thread 10 train state T wchan stop syscall 0\n");
  write("notes.txt", "x");
  write("n02.x.txt", "x");
  const auto written = group_written(folder);
  CHECK(written.groups == 2);
  REQUIRE(written.odd.size() == 1);
  CHECK(written.odd[0].rank == Rank(3));
  CHECK(written.odd[0].node == NodeName("n02"));
  CHECK(group_written(folder + "/none").groups == 0);
  std::filesystem::remove_all(folder);
}

TEST_CASE("stacks_of: a process -> its threads; one that is gone -> said") {
  os::SpawnOptions options;
  options.argv = {"sleep", "100"};
  options.environment = {{"PATH", "/usr/bin:/bin"}};
  const auto child = os::spawn(options);
  REQUIRE(child);
  const pid_t pid = child->identity.pid;
  CHECK(stacks_of(pid).find("thread " + std::to_string(pid) + " sleep") != std::string::npos);
  CHECK_FALSE(catches_signal(pid, SIGUSR1));
  ::kill(pid, SIGKILL);
  CHECK(stacks_of(1 << 22).find("gone") != std::string::npos);
}

TEST_CASE("health_sources: each source is reported with what it has or lacks") {
  const auto found = health_sources(NodeName("n01"), false, {{"0000:3b:00", "GPU-1", "1"}, {}});
  REQUIRE(found.sources.size() == 4);
  CHECK(found.sources[0].works);
  CHECK(found.sources[0].detail == "2 GPUs");
  CHECK_FALSE(found.sources[1].works);
  for (const auto& source : found.sources) CHECK_FALSE(source.detail.empty());
}

namespace {

os::Child sleeper(std::map<std::string, std::string> environment) {
  os::SpawnOptions options;
  options.argv = {"sleep", "100"};
  options.environment = std::move(environment);
  options.environment["PATH"] = "/usr/bin:/bin";
  auto child = os::spawn(options);
  REQUIRE(child);
  return *std::move(child);
}

}  // namespace

TEST_CASE("probe_job: the processes of a job on this node -> stacks by rank, and the answer") {
  char name[] = "/tmp/stoker-probe-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const std::string job = std::to_string(900'000'000 + ::getpid() % 90'000'000);
  ::setenv("SLURMD_NODENAME", "n01", 1);
  ::setenv("SLURM_STEP_ID", "7", 1);
  const auto of = [&](const std::string& number, const std::string& node, const std::string& step,
                      const std::string& rank) {
    std::map<std::string, std::string> e{{"SLURM_JOB_ID", number}, {"SLURMD_NODENAME", node}};
    if (!step.empty()) e["SLURM_STEP_ID"] = step;
    e["SLURM_PROCID"] = rank;
    return sleeper(e);
  };
  std::vector<os::Child> children;
  children.push_back(of(job, "n01", "0", "3"));        // a rank
  children.push_back(of(job, "n01", "", "0"));         // of the batch script
  children.push_back(of(job, "n02", "0", "4"));        // of another slurmd on this host
  children.push_back(of(job, "n01", "7", "0"));        // the probe's own step
  children.push_back(of(job + "1", "n01", "0", "5"));  // of a job whose number begins so
  const JobProbe probe{job, folder, "42"};
  CHECK(probe_job(probe));
  const auto text = os::read_file(folder + "/n01.probe");
  REQUIRE(text);
  const auto answer = from_json_text<wire::ProbeAnswer>(*text, "answer");
  REQUIRE(answer);
  CHECK(answer->question == "42");
  CHECK(answer->processes == 2);
  CHECK(answer->stacks == 2);
  CHECK(os::read_file(folder + "/n01.3.txt")->find("thread") != std::string::npos);
  CHECK(std::filesystem::exists(folder + "/n01.batch.txt"));
  for (os::Child& child : children) {
    CHECK(os::send_signal(child.pidfd, SIGKILL));
    while (!*os::try_wait(child)) ::usleep(1000);
  }
  CHECK(probe_job(probe));
  CHECK(from_json_text<wire::ProbeAnswer>(*os::read_file(folder + "/n01.probe"), "answer")
            ->processes == 0);
  CHECK(!probe_job({"4711; rm -rf /", folder, ""}));
  ::unsetenv("SLURMD_NODENAME");
  ::unsetenv("SLURM_STEP_ID");
  std::filesystem::remove_all(folder);
}

TEST_CASE(
    "stacks: tools that take long -> what /proc shows first, then as much as there is time for") {
  char name[] = "/tmp/stoker-slow-XXXXXX";
  const std::string folder = ::mkdtemp(name);
  const std::string path = ::getenv("PATH");
  REQUIRE(os::replace_file(folder + "/gdb", "#!/bin/sh\nexec sleep 60\n", os::Durability::Cached,
                           0755));
  ::setenv("PATH", (folder + ":" + path).c_str(), 1);
  ::setenv("SLURMD_NODENAME", "n01", 1);
  const std::string job = std::to_string(800'000'000 + ::getpid() % 90'000'000);
  std::vector<os::Child> children;
  StackTarget target{"n01.0", {}, ""};
  for (int i = 0; i < 3; ++i) {
    children.push_back(sleeper({{"SLURM_JOB_ID", job}, {"SLURMD_NODENAME", "n01"}}));
    target.pids.push_back(children.back().identity.pid);
  }
  const Instant began = monotonic_now();
  bool first = false;
  CHECK(write_stacks(
            {target}, folder,
            [&](std::uint32_t written) {
              first = written == 1 && monotonic_now() - began < 60s &&
                      os::read_file(folder + "/n01.0.txt")->find("thread") != std::string::npos;
            },
            500ms) == 1);
  CHECK(first);
  CHECK(monotonic_now() - began < 60s);  // none was waited for
  CHECK(os::read_file(folder + "/n01.0.txt")->find("no time was left") != std::string::npos);

  REQUIRE(os::replace_file(folder + "/gdb", "#!/bin/sh\nsleep 2\n", os::Durability::Cached, 0755));
  auto probe = std::async(std::launch::async, [&] { return probe_job({job, folder, "7"}); });
  for (int i = 0; i < 300 && !os::exists(folder + "/n01.probe"); ++i) ::usleep(5000);
  CHECK(os::exists(folder + "/n01.probe"));
  CHECK(probe.wait_for(0s) == std::future_status::timeout);  // its tools still run
  CHECK(probe.get());
  for (os::Child& child : children) {
    CHECK(os::send_signal(child.pidfd, SIGKILL));
    while (!*os::try_wait(child)) ::usleep(1000);
  }
  ::setenv("PATH", path.c_str(), 1);
  ::unsetenv("SLURMD_NODENAME");
  std::filesystem::remove_all(folder);
}
