// Names of nodes that a person gave, against what the schedulers answered.
#include "daemon/loop/node_names.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace stoker;
using namespace stoker::daemon;

namespace {

using Answers = std::vector<Result<std::set<NodeName>>>;

std::vector<NodeName> names(std::initializer_list<const char*> list) {
  std::vector<NodeName> made;
  for (const char* name : list) made.emplace_back(name);
  return made;
}
std::set<NodeName> cluster(int nodes) {
  std::set<NodeName> made;
  for (int n = 1; n <= nodes; ++n) made.insert(NodeName(fmt::format("n{:03}", n)));
  return made;
}

}  // namespace

TEST_CASE("node names: known ones pass; an unknown one is refused in a line with near ones") {
  CHECK(judge_names(names({"n001", "n048"}), {cluster(48)}).refusal.empty());
  CHECK(judge_names(names({"n001", "n0O2", "x"}), {cluster(48)}).refusal ==
        "there is no node n0O2 (and 1 more); near: n002, n012, n022");
  CHECK(judge_names(names({"gpu-rack-17"}), {cluster(48)}).refusal ==
        "there is no node gpu-rack-17; there are n[001-048]");
}

TEST_CASE("node names: two schedulers -> one that knows the name is enough") {
  const Answers both{cluster(2), std::set<NodeName>{NodeName("gpu7")}};
  CHECK(judge_names(names({"n001", "gpu7"}), both).refusal.empty());
  CHECK(judge_names(names({"gpu8"}), both).refusal == "there is no node gpu8; near: gpu7");
}

TEST_CASE("node names: a scheduler that does not answer proves nothing -> taken, with a note") {
  const Answers one_silent{cluster(2), fail("no answer within 10s", "sinfo")};
  const auto judged = judge_names(names({"n001", "gpu7"}), one_silent);
  CHECK(judged.refusal.empty());
  CHECK(judged.note == "gpu7 could not be looked up: sinfo: no answer within 10s");
  CHECK(judge_names(names({"n001"}), one_silent).note.empty());
  CHECK(judge_names(names({"n001"}), {}).note ==
        "n001 could not be looked up: no run is supervised");
}

TEST_CASE("node names: many nodes with long names -> still one short line") {
  std::set<NodeName> odd;
  for (int n = 0; n < 2000; ++n) odd.insert(NodeName(fmt::format("rack{}-{}x", n, n * 7919)));
  CHECK(judge_names(names({"a-very-long-name-that-nothing-is-like"}), {odd}).refusal.size() < 220);
}
