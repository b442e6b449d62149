// Which of the kernel's lines an agent reports, and whether they count against its node.
#include "worker/agent/node/kernel_event.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

using namespace stoker;
using namespace stoker::agent;

namespace {

const NodeName kNode("n1");

// We are 1000; process 7 is ours, 8 is root's, 9 is another user's, others are gone.
Owners some_owners() {
  return {1000, [](std::int64_t pid) -> std::optional<std::uint32_t> {
            if (pid == 7) return 1000;
            if (pid == 8) return 0;
            if (pid == 9) return 2000;
            return std::nullopt;
          }};
}

std::string suspect(const std::string& text, const Owners& owners = some_owners()) {
  const auto line = kernel_event(kNode, text, owners);
  if (!line) return "not reported";
  return line->node_suspect.get() ? std::string(name_of(*line->node_suspect.get())) : "";
}

std::string killed(const std::string& pid, const std::string& uid) {
  return "Memory cgroup out of memory: Killed process " + pid + " (python) total-vm:99kB, " +
         "anon-rss:1kB, file-rss:0kB, shmem-rss:0kB" + (uid.empty() ? "" : ", UID:" + uid) +
         (uid.empty() ? "" : " pgtables:1kB oom_score_adj:0");
}

std::string chosen(const std::string& pid, const std::string& uid) {
  return "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0-1,"
         "oom_memcg=/slurm/uid_1/job_1,task_memcg=/slurm/uid_1/job_1/step_0,task=python,pid=" +
         pid + (uid.empty() ? "" : ",uid=" + uid);
}

}  // namespace

TEST_CASE("kernel event: kills of our own -> weak evidence; of others -> not reported") {
  for (const auto& line : {killed, chosen}) {
    CHECK(suspect(line("70", "1000")) == "if_repeated");
    CHECK(suspect(line("70", "2000")) == "not reported");
    CHECK(suspect(line("70", "0")) == "not reported");
    CHECK(suspect(line("7", "2000")) == "not reported");  // its number is taken again already
  }
}

TEST_CASE("kernel event: kills of a kernel that prints no user -> by the process, else no weight") {
  for (const auto& line : {killed, chosen}) {
    CHECK(suspect(line("7", "")) == "if_repeated");
    CHECK(suspect(line("9", "")) == "not reported");
    CHECK(suspect(line("70", "")) == "no");
    CHECK(suspect(line("7", ""), {1000, nullptr}) == "no");
  }
  CHECK(suspect("Out of memory: Kill process 7 (python) score 911 or sacrifice child") ==
        "if_repeated");
  CHECK(suspect("Kernel panic - not syncing: Out of memory: compulsory panic_on_oom") == "no");
}

TEST_CASE("kernel event: a hung task of ours or of root -> weak evidence; of others -> no weight") {
  const auto hung = [](const std::string& pid) {
    return "INFO: task python:" + pid + " blocked for more than 120 seconds.";
  };
  CHECK(suspect(hung("7")) == "if_repeated");
  CHECK(suspect(hung("8")) == "if_repeated");
  CHECK(suspect(hung("9")) == "no");
  CHECK(suspect(hung("70")) == "no");
  CHECK(suspect("watchdog: BUG: soft lockup - CPU#1 stuck for 27s! [python3:9]") == "");
}

TEST_CASE("kernel event: an Xid in a file's name, which the kernel prints -> not reported") {
  CHECK(suspect("x[4711]: segfault at 0 ip 00007f3a sp 00007ffc error 4 in NVRM: Xid "
                "(PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.[7f3a000+1000]") ==
        "not reported");
  CHECK(suspect("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.") == "yes");
}

TEST_CASE(
    "kernel event: Xid of a program's fault -> counts if the process is ours, as hardware's "
    "always") {
  CHECK(suspect("NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python, MMU Fault") == "if_repeated");
  for (const char* other : {"9", "8", "4711"})  // a stranger's, root's, one that is gone
    CHECK(suspect(std::string("NVRM: Xid (PCI:0000:3b:00): 31, pid=") + other +
                  ", name=python, MMU Fault") == "no");
  CHECK(suspect("NVRM: Xid (PCI:0000:3b:00): 31, pid='<unknown>', MMU Fault") == "if_repeated");
  CHECK(suspect("NVRM: Xid (PCI:0000:3b:00): 79, pid=9, GPU has fallen off the bus.") == "yes");
}

TEST_CASE("kernel event: owners -> we ourselves by number and by process") {
  const Owners us = owners();
  if (us.of) {
    CHECK(us.of(::getpid()) == us.ours);
    CHECK_FALSE(us.of(0x7fffffff).has_value());
  }
  CHECK(suspect(killed("70", std::to_string(us.ours)), us) == "if_repeated");
}
