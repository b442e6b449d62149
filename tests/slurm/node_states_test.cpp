// Node states with every suffix of sinfo(1), and sinfo's list as Debian's 22.05.8 prints it.
#include "slurm/node_states.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::slurm;

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
