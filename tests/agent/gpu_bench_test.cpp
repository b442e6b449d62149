// The GPU part of the node bench on a driver that plays: tests/fake_gpu.
#include "worker/agent/gpu/gpu_bench.hpp"

#include <cstdlib>
#include <doctest/doctest.h>

#include "recipe/gpu_bench.hpp"
#include "worker/agent/gpu/burn.hpp"

using namespace stoker;
using namespace stoker::agent;

namespace {

constexpr const char* kCuda = STOKER_FAKE_GPU "/libcuda.so.1";
constexpr const char* kNvml = STOKER_FAKE_GPU "/libnvidia-ml.so.1";

GpuBenchPlan short_plan() {
  GpuBenchPlan plan;
  plan.burn = 100ms;
  plan.launches = 2;
  plan.copied = plan.carried = 1u << 20;
  return plan;
}

GpuBench play(const char* what, const GpuBenchPlan& plan = short_plan(), bool nvml = true) {
  ::setenv("FAKE_GPU", what, 1);
  const auto cuda = load_cuda(kCuda);
  REQUIRE(cuda);
  return bench_gpus(*cuda, nvml ? load_nvml(kNvml) : std::nullopt, plan);
}

std::vector<recipe::PoorGpu> judged(const GpuBench& bench) {
  const NodeName node("n01");
  const std::map<NodeName, std::vector<wire::GpuFigures>> gpus{{node, bench.gpus}};
  return recipe::judge_gpus({node}, recipe::gpu_readings(gpus));
}

}  // namespace

TEST_CASE("GPU bench: a GPU that is well -> every figure, the identity of NVML, nothing poor") {
  const GpuBench bench = play("");
  CHECK_FALSE(bench.hanging);
  CHECK(bench.note.empty());
  REQUIRE(bench.gpus.size() == 1);
  const wire::GpuFigures& gpu = bench.gpus[0];
  CHECK(gpu.note.empty());
  CHECK(gpu.model == "Fake GPU");
  CHECK(gpu.gpu == wire::GpuName{"0000:0a:00", "GPU-fake-0", "156470"});
  for (const char* figure : {"gpu_gemm_bf16", "gpu_memory", "gpu_to_device", "gpu_to_host"}) {
    CAPTURE(figure);
    CHECK(gpu.figures.at(figure) > 0);
  }
  CHECK(gpu.figures.at("gpu_clock") == 1980);
  CHECK(gpu.figures.at("gpu_celsius") == 60);
  for (const char* figure : {"gpu_wrong", "gpu_wrong_copies", "gpu_ecc", "gpu_held_down"}) {
    CAPTURE(figure);
    CHECK(gpu.figures.at(figure) == 0);
  }
  CHECK(judged(bench).empty());
}

TEST_CASE("GPU bench: before tensor cores for bf16 -> f32, and right as well") {
  const GpuBench bench = play("major=7");
  REQUIRE(bench.gpus.size() == 1);
  CHECK(bench.gpus[0].figures.at("gpu_gemm_f32") > 0);
  CHECK(bench.gpus[0].figures.at("gpu_wrong") == 0);
  CHECK_FALSE(bench.gpus[0].figures.contains("gpu_gemm_bf16"));
}

TEST_CASE("GPU bench: a sum that is off by a bit, or a byte of a copy -> that GPU is named") {
  auto poor = judged(play("gpus=2 wrong=1"));
  REQUIRE(poor.size() == 1);
  CHECK(poor[0].pci == "0000:0b:00");
  CHECK(poor[0].figure == "gpu_wrong");
  CHECK(poor[0].value >= 1);
  poor = judged(play("gpus=2 flipped=0"));
  REQUIRE(poor.size() == 1);
  CHECK(poor[0].pci == "0000:0a:00");
}

TEST_CASE("GPU bench: uncorrected errors that grow in the burn, a kernel that fails -> named") {
  auto poor = judged(play("gpus=2 ecc=0"));
  REQUIRE(poor.size() == 1);
  CHECK(recipe::bench_text(poor[0]) == "GPU 0000:0a:00: 1 uncorrected ECC errors in its test");
  poor = judged(play("gpus=2 broken=1"));
  REQUIRE(poor.size() == 1);
  CHECK(recipe::bench_text(poor[0]) == "GPU 0000:0b:00 failed in its test (CUDA error 719)");
}

TEST_CASE("GPU bench: clocks held down by heat, a slow one -> named beside its reading") {
  auto poor = judged(play("gpus=4 held=3"));
  const auto held =
      std::find_if(poor.begin(), poor.end(), [](const auto& p) { return p.pci == "0000:0d:00"; });
  REQUIRE(held != poor.end());
  CHECK(held->more ==
        "; heat or the hardware held its clocks down in 100 % of the burn, 91 C at most");
  poor = judged(play("gpus=4 slow=2"));
  const auto slow =
      std::find_if(poor.begin(), poor.end(), [](const auto& p) { return p.pci == "0000:0c:00"; });
  REQUIRE(slow != poor.end());
  CHECK(slow->figure == "gpu_gemm_bf16");
  CHECK(slow->limit > slow->value);
}

TEST_CASE("GPU bench: no driver, no GPU, an old driver, a busy GPU, no NVML -> said, not bad") {
  const auto missing = load_cuda("libcuda-missing.so.1");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message() == "libcuda-missing.so.1 is not here: no NVIDIA driver");
  CHECK(play("none=1").note == "the driver has no GPU");
  GpuBench bench = play("old=1");
  REQUIRE(bench.gpus.size() == 1);
  CHECK(bench.gpus[0].note == "the burn: an error (222)");
  CHECK(judged(bench).empty());
  bench = play("busy=0");
  CHECK(bench.gpus[0].note ==
        "opening the GPU: all CUDA-capable devices are busy or unavailable (46)");
  CHECK(judged(bench).empty());
  bench = play("ecc=0", short_plan(), false);
  CHECK(bench.gpus[0].note == "libnvidia-ml.so.1 is not here");
  CHECK(bench.gpus[0].figures.at("gpu_wrong") == 0);
  CHECK(judged(bench).empty());
}

TEST_CASE("GPU bench: a driver that never answers -> its GPU is named after the limit") {
  GpuBenchPlan plan = short_plan();
  plan.beside = 4s;
  const GpuBench bench = play("gpus=4 hung=2", plan);
  CHECK(bench.hanging);
  REQUIRE(bench.gpus.size() == 4);
  CHECK(bench.gpus[2].figures.at("gpu_hung") == 1);
  CHECK(bench.gpus[2].note == "no answer within 4.1s, in the burn");
  CHECK_FALSE(bench.gpus[1].figures.contains("gpu_hung"));
  const auto poor = judged(bench);
  const auto hung =
      std::find_if(poor.begin(), poor.end(), [](const auto& p) { return p.pci == "0000:0c:00"; });
  REQUIRE(hung != poor.end());
  CHECK(recipe::bench_text(*hung) == "GPU 0000:0c:00 did not finish its test though others did");
}

TEST_CASE("burn: the same answer for every warp, no answer that is 0") {
  for (const int major : {7, 9}) {
    const Burn burn = make_burn(major);
    CHECK(burn.ptx.find(".entry burn") != std::string_view::npos);
    CHECK(burn.in.size() % 32 == 0);
    for (const std::uint32_t word : burn.right) CHECK(word != 0);
  }
}
