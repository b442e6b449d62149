// A node that was excluded, and is to carry ranks again, takes a short test first, beside some of
// the others and at the same time. Which figures are poor is recipe/'s to say; the lead goes
// without such a node as far as there are others; what follows for the ledger is for the decider.
#include "lead/handlers.hpp"
#include "recipe/node_bench.hpp"

namespace stoker::lead {
namespace {

constexpr std::size_t kMostPeers = 16;
constexpr Duration kBenchLimit = 30s;

void ask_bench(Turn& turn, Benching& benching) {
  benching.waiting = benching.nodes;
  benching.result.figures.clear();
  benching.until = turn.at + kBenchLimit;
  for (const NodeName& node : benching.nodes) turn.send(node, wire::BenchNode{});
}

}  // namespace

// Each node once a generation and accusation.
bool begin_bench(Turn& turn, const Next& next) {
  Parole& parole = turn.state.parole;
  const auto eligible = eligible_nodes(turn.state);
  Benching benching;
  std::size_t peers = 0;
  for (std::size_t i = 0; i < eligible.size(); ++i) {
    const NodeName& node = eligible[i];
    const bool paroled = parole.paroled.contains(node);
    if (paroled && i < turn.orders().nodes && !parole.tested.contains(node))
      benching.result.tested.push_back(node);
    else if (paroled || peers++ >= kMostPeers)
      continue;
    benching.nodes.insert(node);
  }
  if (benching.result.tested.empty()) return false;
  parole.tested.insert(benching.result.tested.begin(), benching.result.tested.end());
  if (peers < recipe::kLeastPeers) {
    turn.notice("nodes on parole are not tested: too few others to compare them with");
    return false;
  }
  benching.next = next;
  benching.since = turn.at;
  ask_bench(turn, benching);
  turn.state.stage = std::move(benching);
  return true;
}

void on_benched(Turn& turn, const NodeName& node, const wire::Benched& report) {
  auto* benching = turn.in<Benching>();
  if (benching == nullptr || benching->waiting.erase(node) == 0) return;
  benching->result.figures[node] = report.figures;
  if (benching->waiting.empty()) end_bench(turn);
}

// Once may be another user's short job on the node: a node that did badly is tested a second time.
void end_bench(Turn& turn) {
  auto* benching = turn.in<Benching>();
  const auto poor = recipe::judge_bench(benching->result.tested, benching->result.figures);
  if (!poor.empty() && benching->round++ == 1) return ask_bench(turn, *benching);
  benching->result.seconds = to_seconds(turn.at - benching->since);
  for (const auto& p : poor) turn.state.parole.poor.insert(p.node);
  turn.report(std::move(benching->result));
  begin_attempt(turn, std::move(benching->next));
}

}  // namespace stoker::lead
