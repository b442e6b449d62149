// A node that was excluded, and is to carry ranks again, takes a short test first, beside some of
// the others and at the same time. Which figures are poor is recipe/'s to say; the lead goes
// without such a node as far as there are others, what follows for the ledger is for the decider.
#include <fmt/format.h>

#include "recipe/node_bench.hpp"
#include "worker/agent/lead.hpp"

namespace stoker::agent {
namespace {

constexpr std::size_t kMostPeers = 16;
constexpr Duration kBenchLimit = 30s;

}  // namespace

// False: nobody is to be tested. Each node once a generation and accusation.
bool Lead::begin_bench() {
  const auto eligible = eligible_nodes();
  Bench bench;
  std::size_t peers = 0;
  for (std::size_t i = 0; i < eligible.size(); ++i) {
    const NodeName& node = eligible[i];
    const bool paroled = paroled_.contains(node);
    if (paroled && i < start_.orders.nodes && !benched_.contains(node))
      bench.result.tested.push_back(node);
    else if (paroled || peers++ >= kMostPeers)
      continue;
    bench.nodes.insert(node);
  }
  if (bench.result.tested.empty()) return false;
  benched_.insert(bench.result.tested.begin(), bench.result.tested.end());
  if (peers < recipe::kLeastPeers) {
    notice("nodes on parole are not tested: too few others to compare them with");
    return false;
  }
  stage_ = Stage::Benching;
  bench.since = monotonic_now();
  bench_ = std::move(bench);
  ask_bench();
  return true;
}

void Lead::ask_bench() {
  bench_->waiting = bench_->nodes;
  bench_->result.figures.clear();
  for (const NodeName& node : bench_->nodes) send(node, BenchNode{});
  loop_.after(kBenchLimit, [this, alive = alive_, since = bench_->since, round = bench_->round] {
    if (*alive && bench_ && bench_->since == since && bench_->round == round) end_bench();
  });
}

void Lead::on_benched(const NodeName& node, const Benched& report) {
  if (!bench_ || bench_->waiting.erase(node) == 0) return;
  bench_->result.figures[node] = report.figures;
  if (bench_->waiting.empty()) end_bench();
}

// Once may be somebody's short job on the node: who did badly is tested a second time.
void Lead::end_bench() {
  const auto poor = recipe::judge_bench(bench_->result.tested, bench_->result.figures);
  if (!poor.empty() && stage_ == Stage::Benching && bench_->round++ == 1) return ask_bench();
  wire::NodesBenched result = std::move(bench_->result);
  result.seconds = to_seconds(monotonic_now() - bench_->since);
  bench_.reset();
  for (const auto& p : poor) poor_.insert(p.node);
  tell(std::move(result));
  if (stage_ == Stage::Benching) begin_attempt(std::string(attempt_why_));
}

}  // namespace stoker::agent
