// Drains: the line for an administrator, and what is done with permission: never to a node that is
// out already, never to another's note.
#include <doctest/doctest.h>

#include "scripted_cluster.hpp"
#include "slurm/drain_proposal.hpp"
#include "slurm/slurm_scheduler.hpp"

using namespace stoker;
using namespace stoker::slurm;
using namespace stoker::slurm::testing;
using core::Certainty;

namespace {

using Argv = std::vector<std::string>;

struct Fixture {
  ScriptedProcesses processes;
  MemoryFiles files;
  SlurmScheduler scheduler{
      processes, files, {"alice", {{"PATH", "/usr/bin"}}, 60s, 45s, [] { return Instant{}; }}};

  void node_is(const std::string& state, const std::string& reason = "none") {
    processes.answers["sinfo"] = {says("n02\x1f" + state + "\x1f" + reason + "\n")};
  }
  core::PortResult<std::string> drain(const std::string& node = "n02", bool lift = false) {
    return scheduler.drain(
        {core::SchedulerKind::Slurm, NodeName(node), lift ? "" : "xid: NVRM: Xid 79", lift});
  }
  std::string said(bool lift = false) {
    const auto result = drain("n02", lift);
    const auto* text = std::get_if<std::string>(&result);
    return text == nullptr ? std::get<core::PortError>(result).error.message() : *text;
  }
  core::PortError refused(const std::string& err) {
    processes.answers["scontrol"] = {says("", err, 1)};
    return std::get<core::PortError>(drain());
  }
};

}  // namespace

TEST_CASE("drain proposal: hostile words -> one line for a shell, or refused") {
  const auto line = [](const std::string& node, const std::string& why) {
    const auto arguments = drain_arguments(NodeName(node), why);
    return arguments ? pasteable(*arguments) : std::string();
  };
  CHECK(line("n02", "hang: rank 3") ==
        "scontrol update NodeName=n02 State=DRAIN 'Reason=stoker: hang: rank 3'");
  const std::string hostile = line("n02", "it's $(reboot)\nn03 State=DOWN");
  CHECK(!hostile.empty());
  CHECK(hostile.find('\n') == std::string::npos);
  CHECK(hostile.find("'\\''") != std::string::npos);  // the quote is quoted
  for (const char* bad : {"", "-n", "n 02", "n02;reboot", "n[01-02]", "$(x)", "n\n"})
    CHECK_MESSAGE(line(bad, "x").empty(), bad);
}

TEST_CASE("drain: a usable node -> drained with our note, as arguments, never through a shell") {
  Fixture f;
  f.node_is("mixed");
  f.processes.answers["scontrol"] = {says("")};
  CHECK(f.said() == "drained");
  CHECK(f.processes.calls.back().argv == Argv{"scontrol", "update", "NodeName=n02", "State=DRAIN",
                                              "Reason=stoker: xid: NVRM: Xid 79"});
  CHECK(f.processes.calls.front().argv.back() == "n02");  // only this node is asked for
}

TEST_CASE("drain: again after a lost answer -> our note is there, nothing is done") {
  Fixture f;
  f.node_is("draining", "stoker: xid: NVRM: Xid 79");
  CHECK(f.said() == "drained");
  CHECK(f.processes.count("scontrol") == 0);
}

TEST_CASE("drain: somebody else's note, a node that is down or unknown -> left as it is") {
  Fixture f;
  f.node_is("drained", "Kill task failed");
  CHECK(f.said() == "left as it is: it is drained: Kill task failed");
  f.node_is("down*", "Not responding");
  CHECK(f.said().find("down*") != std::string::npos);
  f.processes.answers["sinfo"] = {says("")};
  CHECK(f.said().find("does not know it") != std::string::npos);
  CHECK(std::get<std::string>(f.drain("n02;reboot")).find("no name") != std::string::npos);
  CHECK(f.processes.count("scontrol") == 0);
}

TEST_CASE("drain: the node cannot be seen -> nothing is done, tried again") {
  Fixture f;
  f.processes.answers["sinfo"] = {says("", "slurm_load_partitions: Unable to contact", 1)};
  CHECK(std::get<core::PortError>(f.drain()).by_hand.empty());
  f.processes.answers["sinfo"] = {says("n02\x1fmix")};  // torn
  CHECK(std::get<core::PortError>(f.drain()).by_hand.empty());
  CHECK(f.processes.count("scontrol") == 0);
}

TEST_CASE("drain: no right -> the line for who has it; anything else is no such refusal") {
  Fixture f;
  f.node_is("idle");
  const auto refused = f.refused("slurm_update error: Invalid user id\n");
  CHECK(refused.certainty == Certainty::Definite);
  CHECK(refused.by_hand ==
        "scontrol update NodeName=n02 State=DRAIN 'Reason=stoker: xid: NVRM: Xid 79'");
  CHECK(!f.refused("slurm_update error: Access/permission denied\n").by_hand.empty());
  CHECK(f.refused("slurm_update error: Unable to contact slurm controller\n").by_hand.empty());
}

TEST_CASE("undrain: our own note alone is taken away") {
  Fixture f;
  f.processes.answers["scontrol"] = {says("")};
  f.node_is("drained", "stoker: xid: NVRM: Xid 79");
  CHECK(f.said(true) == "back in service");
  CHECK(f.processes.calls.back().argv ==
        Argv{"scontrol", "update", "NodeName=n02", "State=UNDRAIN"});
  const auto before = f.processes.count("scontrol");
  f.node_is("drained", "NHC: GPU gone");
  CHECK(f.said(true).find("NHC: GPU gone") != std::string::npos);
  f.node_is("idle");
  CHECK(f.said(true).find("it is idle") != std::string::npos);
  CHECK(f.processes.count("scontrol") == before);
}
