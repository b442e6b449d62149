// A node that was excluded, and is to carry ranks again, takes a short test first, beside some of
// the others and at the same time; before the first start of a run all nodes may. Which figures are
// poor is recipe/'s to say; the lead goes without such a node as far as there are others; what
// follows for the ledger is for the decider.
#include <algorithm>

#include "lead/handlers.hpp"
#include "recipe/gpu_bench.hpp"

namespace stoker::lead {
namespace {

constexpr std::size_t kMostPeers = 16;
constexpr std::size_t kMostOnDisk = kMostPeers + 1;  // that write on one file system at once
constexpr std::size_t kMostInEvent = 32;             // nodes; a line of events stays short
constexpr Duration kBenchLimit = 30s;
constexpr Duration kBurn = 60s, kBesideBurn = 60s;  // of GPUs

// Long enough for nodes with GPUs, where it has some.
Instant limit_of(const Turn& turn, const Benching& benching) {
  const bool gpus =
      std::any_of(benching.nodes.begin(), benching.nodes.end(),
                  [&](const NodeName& node) { return turn.state.agents.at(node).gpus > 0; });
  return benching.asked + kBenchLimit + (gpus ? kBurn + kBesideBurn : Duration(0s));
}

void report_began(Turn& turn, const Benching& benching) {
  turn.report(wire::BenchBegan{benching.result.tested, benching.result.preflight,
                               benching.until - turn.at});
}

void ask_bench(Turn& turn, Benching& benching) {
  benching.waiting = benching.nodes;
  benching.before = std::exchange(benching.result.gpus, {});
  benching.result.figures.clear();
  benching.result.notes.clear();
  benching.asked = turn.at;
  benching.until = limit_of(turn, benching);
  report_began(turn, benching);
  wire::BenchNode order;
  order.disk = benching.nodes.size() <= kMostOnDisk;
  order.burn = kBurn;
  for (const NodeName& node : benching.nodes) turn.send(node, order);
}

// Those on parole that would carry ranks, and some of the others.
Benching test_paroled(Turn& turn) {
  Parole& parole = turn.state.parole;
  const auto eligible = eligible_nodes(turn.state);
  Benching benching;
  std::size_t peers = 0;
  bool gpus = false;  // those of a node are compared with each other
  for (std::size_t i = 0; i < eligible.size(); ++i) {
    const NodeName& node = eligible[i];
    const bool paroled = parole.paroled.contains(node);
    if (paroled && i < turn.orders().nodes && !parole.tested.contains(node)) {
      benching.result.tested.push_back(node);
      gpus = gpus || turn.state.agents.at(node).gpus > 0;
    } else if (paroled || peers++ >= kMostPeers) {
      continue;
    }
    benching.nodes.insert(node);
  }
  if (benching.result.tested.empty() || peers >= recipe::kLeastPeers || gpus) return benching;
  parole.tested.insert(benching.result.tested.begin(), benching.result.tested.end());
  turn.notice("nodes on parole are not tested: too few others to compare them with");
  return {};
}

Benching test_all(const Turn& turn) {
  Benching benching;
  benching.result.preflight = true;
  benching.result.tested = eligible_nodes(turn.state);
  benching.nodes = {benching.result.tested.begin(), benching.result.tested.end()};
  return benching;
}

// The result in parts that are reported, and judged, each by itself: many nodes in one would make
// too long a line.
std::vector<wire::NodesBenched> parts_of(const Benching& benching) {
  const std::vector<NodeName> nodes(benching.nodes.begin(), benching.nodes.end());
  const std::size_t count = (nodes.size() + kMostInEvent - 1) / kMostInEvent;
  if (count <= 1) return {benching.result};
  const wire::NodesBenched& all = benching.result;
  std::vector<wire::NodesBenched> parts(count);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    wire::NodesBenched& part = parts[i * count / nodes.size()];
    part.seconds = all.seconds;
    part.preflight = all.preflight;
    const auto take = [&](const auto& from, auto& to) {
      if (const auto found = from.find(nodes[i]); found != from.end()) to.insert(*found);
    };
    take(all.figures, part.figures);
    take(all.gpus, part.gpus);
    take(all.notes, part.notes);
    if (std::find(all.tested.begin(), all.tested.end(), nodes[i]) != all.tested.end())
      part.tested.push_back(nodes[i]);
  }
  return parts;
}

std::vector<NodeName> poor_nodes(const wire::NodesBenched& part) {
  std::vector<NodeName> poor;
  for (const auto& p : recipe::judge_bench(part.tested, part.figures)) poor.push_back(p.node);
  for (const auto& p : recipe::judge_gpus(part.tested, recipe::gpu_readings(part.gpus)))
    poor.push_back(p.node);
  return poor;
}

}  // namespace

// Each node once a generation and accusation.
bool begin_bench(Turn& turn, const Next& next) {
  Parole& parole = turn.state.parole;
  Benching benching = std::exchange(parole.preflight, false) ? test_all(turn) : test_paroled(turn);
  if (benching.result.tested.empty()) return false;
  parole.tested.insert(benching.result.tested.begin(), benching.result.tested.end());
  benching.next = next;
  benching.since = turn.at;
  ask_bench(turn, benching);
  turn.state.stage = std::move(benching);
  return true;
}

void on_gpus(Turn& turn, const NodeName& node, std::size_t gpus) {
  turn.state.agents.at(node).gpus = gpus;
  if (auto* benching = turn.in<Benching>()) benching->until = limit_of(turn, *benching);
}

void on_benched(Turn& turn, const NodeName& node, wire::Benched report) {
  auto* benching = turn.in<Benching>();
  if (benching == nullptr || benching->waiting.erase(node) == 0) return;
  for (wire::GpuFigures& gpu : report.gpus)
    for (const wire::GpuFigures& before : benching->before[node])
      if (before.gpu.pci == gpu.gpu.pci) recipe::keep_faults(gpu.figures, before.figures);
  benching->result.figures[node] = std::move(report.figures);
  if (!report.gpus.empty()) benching->result.gpus[node] = std::move(report.gpus);
  if (!report.note.empty()) benching->result.notes[node] = std::move(report.note);
  if (benching->waiting.empty()) end_bench(turn);
}

// Once may be another user's short job on the node: a node that did badly is tested a second time.
void end_bench(Turn& turn) {
  auto* benching = turn.in<Benching>();
  benching->result.seconds = to_seconds(turn.at - benching->since);
  auto parts = parts_of(*benching);
  std::set<NodeName> poor;
  for (const wire::NodesBenched& part : parts)
    for (const NodeName& node : poor_nodes(part)) poor.insert(node);
  if (!poor.empty() && benching->round++ == 1) return ask_bench(turn, *benching);
  turn.state.parole.poor.insert(poor.begin(), poor.end());
  for (wire::NodesBenched& part : parts) turn.report(std::move(part));
  begin_attempt(turn, std::move(benching->next));
}

}  // namespace stoker::lead
