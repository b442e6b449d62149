// Node ledger: evidence, exclusion, cap.
#include "core/nodes/ledger.hpp"

#include <doctest/doctest.h>

#include "core/nodes/node_view.hpp"

using namespace stoker;
using namespace stoker::core;

namespace {

NodeLedger ledger_of(std::initializer_list<const char*> names) {
  NodeLedger ledger;
  for (const char* name : names) ledger.nodes[NodeName(name)] = {};
  return ledger;
}
Evidence evidence(const char* kind, Duration at) {
  Evidence e;
  e.at = Instant{} + at;
  e.wall = WallTime{} + at;
  e.run = RunName("r");
  e.kind = kind;
  e.text = "text";
  return e;
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

TEST_CASE(
    "ledger: the two lines of one kill -> one sign; another kill an hour later -> the second") {
  NodeLedger ledger = ledger_of({"n1", "n2", "n3"});
  for (const Duration at : {Duration(1s), Duration(1s), Duration(4s)})
    note_evidence(ledger, kN1, evidence("oom_kill", at), false, {});
  CHECK(excluded_nodes(ledger, Instant{} + 5s).empty());
  CHECK(health_of(ledger.nodes[kN1], Instant{} + 5s) == NodeHealth::Suspect);
  note_evidence(ledger, kN1, evidence("oom_kill", 1h), false, {});
  CHECK(excluded_nodes(ledger, Instant{} + 61min) == std::vector<NodeName>{kN1});
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

TEST_CASE("ledger: bad hardware at the cap -> it takes the place of the least suspect other one") {
  NodeLedger ledger = ledger_of({"n1", "n2", "n3"});
  RecoverPolicy policy;
  policy.exclude_at_most = 0.7;
  note_evidence(ledger, kN1, evidence("hang", 1s), true, policy);
  note_evidence(ledger, kN2, evidence("hang", 1s), true, policy);
  note_evidence(ledger, kN2, evidence("slow", 2s), true, policy);
  const Noted noted = note_evidence(ledger, kN3, evidence("xid", 3s), true, policy);
  CHECK(noted.convicted);
  CHECK(noted.text ==
        "n3 is excluded for 1d; n1 returns on parole for it, whose hardware is not accused: 2 of 3 "
        "nodes are the maximum");
  CHECK(excluded_nodes(ledger, Instant{} + 4s) == std::vector<NodeName>{kN2, kN3});
  CHECK(ledger.nodes.at(kN1).record->parole);
}

TEST_CASE("ledger: bad hardware at the cap, as all that are excluded -> it stays in") {
  NodeLedger ledger = ledger_of({"n1", "n2", "n3"});
  note_evidence(ledger, kN1, evidence("xid", 1s), true, {});
  CHECK_FALSE(note_evidence(ledger, kN2, evidence("xid", 2s), true, {}).convicted);
  exclude_node(ledger, kN1, evidence("operator", 3s), 1h);
  CHECK(note_evidence(ledger, kN2, evidence("xid", 4s), true, {}).convicted);
  CHECK(excluded_nodes(ledger, Instant{} + 5s) == std::vector<NodeName>{kN1, kN2});
}

TEST_CASE("ledger: the run needs one of two nodes -> the one with bad hardware stays out") {
  NodeLedger ledger = ledger_of({"n1", "n2", "n3"});
  RecoverPolicy policy;
  policy.exclude_at_most = 0.7;
  note_evidence(ledger, kN1, evidence("xid", 1s), true, policy);
  note_evidence(ledger, kN2, evidence("hang", 2s), true, policy);
  CHECK(exclusions_for_submit(ledger, {}, 2, Instant{} + 3s) == std::vector<NodeName>{kN1});
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

namespace {

Evidence of_gpu(const char* uuid, Duration at, double weight) {
  Evidence e = evidence("xid", at);
  e.gpu_uuid = uuid;
  e.gpu_serial = "1564";
  e.gpu_pci = "0000:3b:00";
  e.weight = weight;
  return e;
}

}  // namespace

TEST_CASE("ledger: a score -> half after 30 days, linear between") {
  CHECK(decayed(2, 0s) == 2);
  CHECK(decayed(2, 15 * 24h) == doctest::Approx(1.5));
  CHECK(decayed(2, 30 * 24h) == doctest::Approx(1));
  CHECK(decayed(2, 90 * 24h) == doctest::Approx(0.25));
  CHECK(decayed(2, 4000 * 24h) == 0);
}

TEST_CASE("ledger: a sign a week, never two within a day -> a lemon at the score of 2") {
  NodeLedger ledger = ledger_of({"n1", "n2", "n3"});
  int weeks = 0;
  Noted noted;
  while (!noted.convicted && weeks < 20)
    noted = note_evidence(ledger, kN1, evidence("rank_crash", ++weeks * 7 * 24h), false, {});
  CHECK(weeks == 6);  // 0.5 each: 4 without decay
  CHECK(noted.text.find("suspicion score") != std::string::npos);
}

TEST_CASE("node view: excluded, and down by the scheduler's word -> both are shown") {
  NodeLedger ledger = ledger_of({"n1", "n2", "n3"});
  exclude_node(ledger, kN1, evidence("operator", 1h), 24h);
  NodeEntry& entry = ledger.nodes[kN1];
  CHECK(state_text(published_node(kN1, entry, Instant{} + 2h)) ==
        "excluded until 1970-01-02T01:00:00Z");
  entry.usable = false;
  const auto down = published_node(kN1, entry, Instant{} + 2h);
  CHECK(down.state == "down");
  CHECK(state_text(down) == "down; excluded until 1970-01-02T01:00:00Z");
  CHECK(state_text(published_node(kN1, entry, Instant{} + 26h)) == "down");
}

TEST_CASE("ledger: back from an exclusion -> the next sign doubles it, and the one after again") {
  NodeLedger ledger = ledger_of({"n1", "n2", "n3"});
  CHECK(note_evidence(ledger, kN1, evidence("hang", 1h), true, {}).convicted);
  CHECK(!note_evidence(ledger, kN1, evidence("rank_crash", 2h), false, {}).convicted);  // is out
  CHECK(note_evidence(ledger, kN1, evidence("rank_crash", 30h), false, {}).convicted);
  CHECK(*ledger.nodes[kN1].excluded_until == Instant{} + 30h + 48h);
  CHECK(note_evidence(ledger, kN1, evidence("rank_crash", 100h), false, {}).convicted);
  CHECK(*ledger.nodes[kN1].excluded_until == Instant{} + 100h + 96h);
}

TEST_CASE(
    "ledger: trained well for long enough on parole -> trusted; false unless the kernel said") {
  for (const bool kernel : {false, true}) {
    NodeLedger ledger = ledger_of({"n1", "n2", "n3"});
    note_evidence(ledger, kN1, kernel ? of_gpu("GPU-1", 1h, 1) : evidence("hang", 1h), true, {});
    CHECK(watch_parole(ledger, {kN1}, Instant{} + 2h).empty());  // it is out
    CHECK(watch_parole(ledger, {kN1, kN2}, Instant{} + 26h) == std::vector<NodeName>{kN1});
    CHECK(watch_parole(ledger, {kN1}, Instant{} + 27h).empty());  // watched already
    CHECK(trust_again(ledger, {kN1}, Instant{} + 40h, 24h).empty());
    const auto trusted = trust_again(ledger, {kN1, kN2}, Instant{} + 51h, 24h);
    REQUIRE(trusted.size() == 1);
    CHECK(trusted[0].false_accusation == !kernel);
    CHECK(ledger.accused == 1);
    CHECK(ledger.false_ones == (kernel ? 0 : 1));
    note_evidence(ledger, kN1, evidence("hang", 60h), true, {});
    CHECK(*ledger.nodes[kN1].excluded_until == Instant{} + 84h);  // the first length again
  }
}

TEST_CASE("ledger: on parole, hours in which nothing trains are not counted") {
  NodeLedger ledger = ledger_of({"n1", "n2"});
  note_evidence(ledger, kN1, evidence("hang", 1h), true, {});
  watch_parole(ledger, {kN1}, Instant{} + 30h);
  CHECK(trust_again(ledger, {kN1}, Instant{} + 40h, 24h).empty());
  watch_parole(ledger, {kN1}, Instant{} + 100h);  // the run was held for days
  CHECK(trust_again(ledger, {kN1}, Instant{} + 113h, 24h).empty());
  CHECK(trust_again(ledger, {kN1}, Instant{} + 114h, 24h).size() == 1);
}

TEST_CASE("ledger: excluded for a hang, then the kernel confirms it -> no false positive") {
  for (const double weight : {1.0, 0.5}) {
    NodeLedger ledger = ledger_of({"n1", "n2", "n3", "n4"});
    note_evidence(ledger, kN1, evidence("hang", 1h), true, {});
    const Noted later = note_evidence(ledger, kN1, of_gpu("GPU-1", 1h + 30s, weight), true, {});
    CHECK(later.text == "n1 is excluded already");
    CHECK(ledger.nodes[kN1].record->hardware == (weight == 1));
  }
}

TEST_CASE("ledger: one fault reported several times within minutes -> one sign") {
  NodeLedger ledger = ledger_of({"n1", "n2", "n3"});
  for (int i = 0; i < 8; ++i)
    note_evidence(ledger, kN1, of_gpu("GPU-1", 1h + i * 1s, 0.5), false, {});
  CHECK(health_of(ledger.nodes[kN1], Instant{} + 2h) == NodeHealth::Suspect);
  CHECK(score_of(ledger.nodes[kN1], Instant{} + 1h) == doctest::Approx(0.5));
  CHECK(note_evidence(ledger, kN1, of_gpu("GPU-1", 2h, 0.5), false, {}).convicted);
}

TEST_CASE("ledger: the program's own fault -> accuses no node") {
  NodeLedger ledger = ledger_of({"n1", "n2", "n3"});
  for (int i = 1; i < 9; ++i) note_evidence(ledger, kN1, of_gpu("GPU-1", i * 1h, 0), false, {});
  CHECK(health_of(ledger.nodes[kN1], Instant{} + 10h) == NodeHealth::Ok);
  CHECK(score_of(ledger.nodes[kN1], Instant{} + 10h) == 0);
}

TEST_CASE("ledger: an accused GPU is moved -> its score goes with it") {
  NodeLedger ledger = ledger_of({"n1", "n2", "n3"});
  note_evidence(ledger, kN1, of_gpu("GPU-1", 1h, 0.5), false, {});
  CHECK(note_gpus(ledger, kN1, {{"GPU-1", "", "0000:3b:00"}}, Instant{} + 2h).empty());
  const auto news = note_gpus(ledger, kN2, {{"GPU-1", "", "0000:3b:00"}}, Instant{} + 3h);
  REQUIRE(news.size() == 1);
  CHECK(ledger.nodes[kN1].record->gpus.empty());
  CHECK(score_of(ledger.nodes[kN2], Instant{} + 3h) == doctest::Approx(0.5).epsilon(0.01));
  CHECK(note_gpus(ledger, kN2, {{"GPU-2", "", ""}}, Instant{} + 4h).size() == 1);
  CHECK(score_of(ledger.nodes[kN2], Instant{} + 4h) == doctest::Approx(0).epsilon(0.01));
  CHECK(note_gpus(ledger, kN3, {{"GPU-1", "", "0000:3b:00"}}, Instant{} + 5h).size() == 1);
  CHECK(score_of(ledger.nodes[kN3], Instant{} + 5h) == doctest::Approx(0.5).epsilon(0.01));
  CHECK(ledger.nodes[kN2].record->gpus.empty());
}
