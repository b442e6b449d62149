// Node states with every suffix of sinfo(1), and sinfo's list as Debian's 22.05.8 prints it.
#include "slurm/node_states.hpp"

#include <doctest/doctest.h>

#include "scripted_cluster.hpp"
#include "slurm/slurm_scheduler.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;

TEST_CASE("nodes: words and suffixes -> usable or not") {
  for (const char* word : {"idle", "IDLE", "mixed", "mix", "allocated", "alloc+", "completing",
                           "reserved", "planned", "idle~", "idle#", "mixed-"})
    CHECK_MESSAGE(node_usable(word), word);
  for (const char* word :
       {"down",  "down*",   "DOWN*",         "drained",      "drained*", "draining",   "drain$",
        "fail",  "failing", "maint",         "idle*",        "mixed@",   "allocated^", "idle%",
        "idle!", "idle$",   "reboot_issued", "powered_down", "unknown",  "blocked",    "future",
        "",      "*"})
    CHECK_MESSAGE(!node_usable(word), word);
}

TEST_CASE("nodes: sinfo of two partitions -> each node once, with the reason") {
  const auto nodes = parse_nodes(
      "n01\x1fidle\x1fnone\nn01\x1fidle\x1fnone\nn02\x1f"
      "down*\x1fNot responding\nn03\x1f"
      "drained\x1fstoker: xid 79 2026-11-22\n");
  REQUIRE(nodes);
  REQUIRE(nodes->size() == 3);
  CHECK((*nodes)[0].usable);
  CHECK((*nodes)[0].reason.empty());
  CHECK(!(*nodes)[1].usable);
  CHECK((*nodes)[1].reason == "Not responding");
  CHECK((*nodes)[2].state == "drained");
}

TEST_CASE("nodes: torn or foreign answer -> error; empty -> none") {
  CHECK(parse_nodes("")->empty());
  CHECK(!parse_nodes("n01\x1fidle\x1fno"));
  CHECK(!parse_nodes("Welcome\n"));
  CHECK(!parse_nodes("sinfo: error: x\n"));
}

TEST_CASE("nodes: who was taken out of service") {
  for (const char* word : {"drained", "draining", "DRAINED*", "drained$", "drain", "drng"})
    CHECK_MESSAGE(is_drained(word), word);
  for (const char* word : {"idle", "down*", "mixed", "", "maint"})
    CHECK_MESSAGE(!is_drained(word), word);
}

TEST_CASE("nodes: names that are looked up -> one sinfo, none for what was heard before") {
  ScriptedProcesses processes;
  MemoryFiles files;
  SlurmScheduler scheduler(processes, files,
                           {"alice", {{"PATH", "/usr/bin"}}, 60s, 45s, [] { return Instant{}; }});
  processes.answers["sinfo"] = {
      says("n01\x1fidle\x1fnone\nn02\x1f"
           "drained\x1fx\n")};
  const auto all = scheduler.find_nodes({NodeName("n02")});
  REQUIRE(all);
  CHECK(*all == std::set<NodeName>{NodeName("n01"), NodeName("n02")});
  CHECK(scheduler.find_nodes({NodeName("n01"), NodeName("n02")}));
  CHECK(processes.count("sinfo") == 1);
  processes.answers["sinfo"] = {says("n01\x1fidle\x1fnone\nn03\x1fidle\x1fnone\n")};
  CHECK(scheduler.find_nodes({NodeName("n03")})->contains(NodeName("n03")));  // it is new
  CHECK(processes.count("sinfo") == 2);
}

TEST_CASE("nodes: names that cannot be looked up -> an error, never \"no such node\"") {
  ScriptedProcesses processes;
  MemoryFiles files;
  SlurmScheduler scheduler(processes, files,
                           {"alice", {{"PATH", "/usr/bin"}}, 60s, 45s, [] { return Instant{}; }});
  CHECK(!scheduler.find_nodes({NodeName("n01")}));  // no sinfo
  processes.answers["sinfo"] = {says("", "slurm_load_partitions: Unable to contact", 1), says(""),
                                says("n01\x1fmix")};
  for (int times = 0; times < 3; ++times) CHECK(!scheduler.find_nodes({NodeName("n01")}));
  CHECK(processes.count("sinfo") == 4);
}
