// Which GPUs stand out, by the fleet's own median and spread.
#include "recipe/gpu_bench.hpp"

#include <doctest/doctest.h>
#include <limits>

using namespace stoker;
using namespace stoker::recipe;

namespace {

const NodeName kTested("n09");

// Three nodes of four GPUs, and the tested one of four; readings as of H100s that are well.
NodeGpus fleet() {
  NodeGpus gpus;
  double step = 0;
  for (const char* node : {"n01", "n02", "n03", "n09"})
    for (int i = 0; i < 4; ++i, step += 0.7)
      gpus[NodeName(node)].push_back({"0000:0" + std::to_string(i) + ":00",
                                      "H100",
                                      {{"gpu_gemm_bf16", 600 + step},
                                       {"gpu_memory", 2900 + step},
                                       {"gpu_to_host", 50 + i},
                                       {"gpu_wrong", 0},
                                       {"gpu_ecc", 0}}});
  return gpus;
}

NodeGpus with(const std::string& figure, double value) {
  NodeGpus gpus = fleet();
  gpus[kTested][2].figures[figure] = value;
  return gpus;
}

std::string told(const NodeGpus& gpus, const std::vector<NodeName>& tested = {kTested}) {
  std::string text;
  for (const PoorGpu& poor : judge_gpus(tested, gpus))
    text += poor.node.text + " " + bench_text(poor) + "\n";
  return text;
}

}  // namespace

TEST_CASE("judge_gpus: as the others, or a few percent less -> no GPU") {
  CHECK(told(fleet()).empty());
  CHECK(told(with("gpu_gemm_bf16", 540)).empty());
  CHECK(told(with("gpu_memory", 2650)).empty());
  CHECK(told(with("gpu_to_host", 33)).empty());
}

TEST_CASE("judge_gpus: below the limit -> named with reading, limit and median") {
  CHECK(told(with("gpu_gemm_bf16", 500)) ==
        "n09 GPU 0000:02:00: gpu_gemm_bf16 500, below 531; the median of the others is 604\n");
  CHECK(told(with("gpu_to_host", 12)) ==
        "n09 GPU 0000:02:00: gpu_to_host 12, below 30.6; the median of the others is 51\n");
}

TEST_CASE("judge_gpus: the worst figure of a GPU speaks, with what may explain it") {
  NodeGpus gpus = with("gpu_gemm_bf16", 500);
  gpus[kTested][2].figures["gpu_memory"] = 300;
  gpus[kTested][2].figures["gpu_held_down"] = 0.815;
  gpus[kTested][2].figures["gpu_celsius"] = 91;
  CHECK(told(gpus) ==
        "n09 GPU 0000:02:00: gpu_memory 300, below 2613; the median of the others is 2904; "
        "heat or the hardware held its clocks down in 82 % of the burn, 91 C at most\n");
}

TEST_CASE("judge_gpus: a fleet that scatters widely convicts no GPU within its scatter") {
  NodeGpus gpus = fleet();
  double value = 300;
  for (auto& [node, list] : gpus)
    for (GpuReading& gpu : list) gpu.figures["gpu_gemm_bf16"] = value += 40;
  gpus[kTested][2].figures["gpu_gemm_bf16"] = 310;
  CHECK(told(gpus).empty());
}

TEST_CASE("judge_gpus: bad by itself -> named without anything to compare it with") {
  const auto alone = [](const char* figure, double value) {
    NodeGpus gpus;
    gpus[kTested] = {{"0000:00:00", "H100", {{figure, value}}}};
    return told(gpus);
  };
  CHECK(alone("gpu_wrong", 3) == "n09 GPU 0000:00:00 computed 3 sums wrong\n");
  CHECK(alone("gpu_wrong_copies", 8) ==
        "n09 GPU 0000:00:00: 8 bytes came back different from a copy\n");
  CHECK(alone("gpu_ecc", 2) == "n09 GPU 0000:00:00: 2 uncorrected ECC errors in its test\n");
  CHECK(alone("gpu_failed", 719) == "n09 GPU 0000:00:00 failed in its test (CUDA error 719)\n");
  CHECK(alone("gpu_gemm_bf16", 1).empty());
  CHECK(alone("gpu_hung", 1).empty());
  CHECK(alone("gpu_ecc_corrected", 900).empty());
}

TEST_CASE("judge_gpus: hung where others finished -> named; where all hang -> not") {
  CHECK(told(with("gpu_hung", 1)) ==
        "n09 GPU 0000:02:00 did not finish its test though others did\n");
  NodeGpus gpus = fleet();
  for (auto& [node, list] : gpus)
    for (GpuReading& gpu : list) gpu.figures["gpu_hung"] = 1;
  CHECK(told(gpus).empty());
}

TEST_CASE("judge_gpus: another model, no reading, no number -> says nothing") {
  NodeGpus gpus = with("gpu_gemm_bf16", 100);
  gpus[kTested][2].model = "L40S";
  CHECK(told(gpus).empty());
  gpus = fleet();
  gpus[kTested][2].figures.clear();
  CHECK(told(gpus).empty());
  CHECK(told(with("gpu_gemm_bf16", std::numeric_limits<double>::quiet_NaN())).empty());
  CHECK(told(with("gpu_wrong", -1)).empty());
  CHECK(told({}).empty());
}

TEST_CASE("judge_gpus: a whole node that is slow is held against the others, not against itself") {
  NodeGpus gpus = fleet();
  gpus.erase(NodeName("n02"));
  gpus.erase(NodeName("n03"));
  gpus[NodeName("n01")].resize(2);
  for (GpuReading& gpu : gpus[kTested]) gpu.figures["gpu_gemm_bf16"] = 400;
  CHECK(judge_gpus({kTested}, gpus).size() == 4);
}

TEST_CASE("judge_gpus: before the first start all are tested -> each against the rest") {
  const std::vector<NodeName> all{NodeName("n01"), NodeName("n02"), NodeName("n03"), kTested};
  CHECK(told(fleet(), all).empty());
  CHECK(told(with("gpu_memory", 1000), all).starts_with("n09 GPU 0000:02:00: gpu_memory 1000"));
  NodeGpus one;
  one[kTested] = fleet()[kTested];
  one[kTested][2].figures["gpu_gemm_bf16"] = 300;
  CHECK(judge_gpus({kTested}, one).size() == 1);  // beside its neighbours
}

TEST_CASE("keep_faults: what was bad by itself in the first round stays") {
  NodeFigures second{{"gpu_wrong", 0}, {"gpu_gemm_bf16", 600}};
  keep_faults(second, {{"gpu_wrong", 3}, {"gpu_ecc", 1}, {"gpu_gemm_bf16", 100}});
  CHECK(second == NodeFigures{{"gpu_wrong", 3}, {"gpu_ecc", 1}, {"gpu_gemm_bf16", 600}});
}
