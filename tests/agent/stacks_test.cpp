// Stacks of real processes, and the groups that the lead tells.
#include "worker/agent/stacks.hpp"

#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/process.hpp"
#include "worker/agent/node_health.hpp"
#include "worker/agent/process_tree.hpp"

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

TEST_CASE("health_sources: each source is told with what it has or lacks") {
  const auto found = health_sources(NodeName("n01"), false, {{"0000:3b:00", "GPU-1", "1"}, {}});
  REQUIRE(found.sources.size() == 4);
  CHECK(found.sources[0].works);
  CHECK(found.sources[0].detail == "2 GPUs");
  CHECK_FALSE(found.sources[1].works);
  for (const auto& source : found.sources) CHECK_FALSE(source.detail.empty());
}
