// Tests of nodes: on parole, and before the first start of a run (recover.preflight).
#include <algorithm>
#include <fmt/format.h>

#include "core/nodes/accuse.hpp"
#include "core/recover/recover.hpp"
#include "core/sentence.hpp"
#include "core/supply/supply.hpp"
#include "recipe/gpu_bench.hpp"

namespace stoker::core {
namespace {

constexpr std::size_t kGpuNameKept = 96;  // NVML's own limit
constexpr std::size_t kNoteKept = 160;    // of an agent
constexpr std::size_t kGpusNamed = 4;     // of a node
constexpr Duration kLongestBench = 10min;

const wire::GpuFigures* gpu_of(const wire::NodesBenched& e, const recipe::PoorGpu& poor) {
  const auto node = e.gpus.find(poor.node);
  if (node == e.gpus.end()) return nullptr;
  for (const wire::GpuFigures& gpu : node->second)
    if (gpu.gpu.pci == poor.pci) return &gpu;
  return nullptr;
}

void charge(Turn& turn, const wire::NodesBenched& e, const NodeName& node, const std::string& what,
            const wire::GpuFigures* broken = nullptr) {
  constexpr std::size_t kSentence = 400;
  const std::string text = fmt::format(
      "{} {}: {}", node.text,
      e.preflight ? "failed its test before the first start" : "is on parole and failed its test",
      what.substr(0, kSentence));
  Evidence evidence = evidence_of(turn, "bench", text);
  if (broken != nullptr) {
    evidence.gpu_uuid = broken->gpu.uuid.substr(0, kGpuNameKept);
    evidence.gpu_serial = broken->gpu.serial.substr(0, kGpuNameKept);
    evidence.gpu_pci = broken->gpu.pci.substr(0, kGpuNameKept);
  }
  turn.say(text);
  turn.say(accuse_node(turn, node, std::move(evidence), true));
}

// What a GPU does wrong by itself is that GPU's, wherever it goes; what others do better may be the
// node's cooling.
std::size_t accuse_for_gpus(Turn& turn, const wire::NodesBenched& e,
                            const std::vector<recipe::PoorGpu>& poor, const NodeName& node) {
  std::size_t count = 0;
  for (const recipe::PoorGpu& gpu : poor) {
    if (gpu.node != node) continue;
    if (++count > kGpusNamed) continue;
    const bool broken = gpu.usual == 0 && gpu.figure != "gpu_hung";
    charge(turn, e, node, recipe::bench_text(gpu), broken ? gpu_of(e, gpu) : nullptr);
  }
  if (count > kGpusNamed)
    turn.say(fmt::format("{} more GPUs of {} did badly", count - kGpusNamed, node.text));
  return count;
}

// Not measured is not bad.
void say_untested(Turn& turn, const wire::NodesBenched& e) {
  std::map<std::string, std::vector<NodeName>> none;
  for (const NodeName& node : e.tested)
    if (const auto note = e.notes.find(node); note != e.notes.end())
      none[note->second.substr(0, kNoteKept)].push_back(node);
  for (const auto& [why, nodes] : none)
    turn.say(fmt::format("no GPU was tested on {}: {}", nodes_text(nodes), why));
  std::map<std::string, std::size_t> missing;
  for (const NodeName& node : e.tested)
    if (const auto gpus = e.gpus.find(node); gpus != e.gpus.end())
      for (const wire::GpuFigures& gpu : gpus->second)
        if (!gpu.note.empty()) ++missing[gpu.note.substr(0, kNoteKept)];
  for (const auto& [what, count] : missing)
    turn.say(fmt::format("not measured on {}: {}", count_text(count, "GPU"), what));
}

std::string passed_text(const wire::NodesBenched& e, const std::vector<NodeName>& passed) {
  const std::size_t others = e.figures.size() - std::min(e.figures.size(), e.tested.size());
  if (!e.preflight)
    return fmt::format("{} passed the test on parole in {:.1f}s, beside {}", nodes_text(passed),
                       e.seconds, count_text(others, "other"));
  const bool alone = e.figures.size() <= recipe::kLeastPeers;
  return fmt::format("{} passed the test before the first start in {:.1f}s{}", nodes_text(passed),
                     e.seconds, alone ? "; too few nodes to compare them with each other" : "");
}

}  // namespace

// A restart inside that waits for the test is not given up meanwhile.
void on_bench_began(Turn& turn, const wire::BenchBegan& e) {
  const Duration limit = std::clamp<Duration>(e.at_most, 0s, kLongestBench);
  turn.say(fmt::format(
      "{} {} tested {}, for {} at most", nodes_text(e.tested), e.tested.size() == 1 ? "is" : "are",
      e.preflight ? "before the first start" : "on parole", format_duration(limit)));
  await_restart(turn.r(), turn.now() + limit);
}

// The lead goes without a node that did badly by itself, as far as there are others.
void on_nodes_benched(Turn& turn, const wire::NodesBenched& e) {
  const auto poor = recipe::judge_bench(e.tested, e.figures);
  const auto gpus = recipe::judge_gpus(e.tested, recipe::gpu_readings(e.gpus));
  std::vector<NodeName> passed, silent;
  for (const NodeName& node : e.tested) {
    const auto found =
        std::find_if(poor.begin(), poor.end(), [&](const auto& p) { return p.node == node; });
    if (found != poor.end()) charge(turn, e, node, recipe::bench_text(*found));
    const bool failed = accuse_for_gpus(turn, e, gpus, node) > 0 || found != poor.end();
    if (!failed) (e.figures.contains(node) ? passed : silent).push_back(node);
  }
  if (!passed.empty()) turn.say(passed_text(e, passed));
  if (!silent.empty())
    turn.say(fmt::format("{} did not answer within {:.1f}s, and too few others did: not tested",
                         nodes_text(silent), e.seconds));
  say_untested(turn, e);
  if (passed.size() + silent.size() < e.tested.size()) supply::update_exclusions(turn);
}

}  // namespace stoker::core
