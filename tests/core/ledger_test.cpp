// Node ledger: evidence, exclusion, cap.
#include "core/ledger.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::core;

namespace {

NodeLedger ledger_of(std::initializer_list<const char*> names) {
  NodeLedger ledger;
  for (const char* name : names) ledger.nodes[NodeName(name)] = {};
  return ledger;
}
Evidence evidence(const char* kind, Duration at) {
  return {Instant{} + at, WallTime{} + at, RunName("r"), kind, "text"};
}
const NodeName kN1("n1"), kN2("n2"), kN3("n3");

}  // namespace

TEST_CASE("ledger: one weak sign -> suspect; a second of the kind -> excluded; later -> ok again") {
  NodeLedger ledger = ledger_of({"n1", "n2", "n3"});
  const RecoverPolicy policy;
  note_evidence(ledger, kN1, evidence("rank_crash", 1s), false, policy);
  CHECK(health_of(ledger.nodes[kN1], Instant{} + 2s) == NodeHealth::Suspect);
  note_evidence(ledger, kN1, evidence("rank_crash", 3s), false, policy);
  CHECK(health_of(ledger.nodes[kN1], Instant{} + 4s) == NodeHealth::Excluded);
  CHECK(health_of(ledger.nodes[kN1], Instant{} + 49h) == NodeHealth::Ok);
}

TEST_CASE("ledger: signs of different kinds -> stay weak") {
  NodeLedger ledger = ledger_of({"n1", "n2", "n3"});
  note_evidence(ledger, kN1, evidence("rank_crash", 1s), false, {});
  note_evidence(ledger, kN1, evidence("agent_lost", 3s), false, {});
  CHECK(excluded_nodes(ledger, Instant{} + 4s).empty());
}

TEST_CASE("ledger: strong evidence against everybody -> no more than the cap is excluded") {
  NodeLedger ledger = ledger_of({"n1", "n2", "n3"});
  for (const NodeName& node : {kN1, kN2, kN3})
    note_evidence(ledger, node, evidence("hang", 1s), true, {});
  CHECK(excluded_nodes(ledger, Instant{} + 2s) == std::vector<NodeName>{kN1});
}

TEST_CASE("ledger: a run needs the nodes -> the exclusion is left out, an operator's stays") {
  NodeLedger ledger = ledger_of({"n1", "n2", "n3"});
  note_evidence(ledger, kN1, evidence("hang", 1s), true, {});
  const Instant now = Instant{} + 2s;
  CHECK(exclusions_for_submit(ledger, {}, 2, now) == std::vector<NodeName>{kN1});
  CHECK(exclusions_for_submit(ledger, {}, 3, now).empty());
  exclude_node(ledger, kN2, evidence("operator", 1s), 1h);
  CHECK(exclusions_for_submit(ledger, {}, 3, now) == std::vector<NodeName>{kN2});
}

TEST_CASE("ledger: a node is down -> it counts as not usable, exclusion or not") {
  NodeLedger ledger = ledger_of({"n1", "n2", "n3"});
  ledger.nodes[kN3].usable = false;
  CHECK(usable_nodes(ledger, {}) == 2);
  CHECK(usable_nodes(ledger, {kN1}) == 1);
  CHECK(health_of(ledger.nodes[kN3], Instant{}) == NodeHealth::Down);
}
