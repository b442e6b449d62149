#include "worker/agent/gpu/gpu_bench.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <mutex>

#include "worker/agent/aside.hpp"
#include "worker/agent/gpu/burn.hpp"
#include "worker/agent/gpu/card.hpp"
#include "worker/agent/gpu/gauges.hpp"

namespace stoker::agent {
namespace {

// What the threads of the GPUs have in common; it outlives those that hang.
struct Bench {
  CudaTable cuda;
  std::optional<NvmlTable> nvml;
  GpuBenchPlan plan;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<wire::GpuFigures> gpus;
  std::vector<std::string> doing;  // of each GPU; "" = it is done
  std::string note;
  bool counted = false;  // the GPUs are known
};

using Shared = std::shared_ptr<Bench>;

void now_doing(const Shared& bench, std::size_t at, std::string what) {
  const std::lock_guard lock(bench->mutex);
  bench->doing[at] = std::move(what);
  bench->changed.notify_all();
}

void add_note(std::string& note, std::string_view more) {
  if (more.empty()) return;
  note += fmt::format("{}{}", note.empty() ? "" : "; ", more);
}

// A part of the test that says why it measured nothing; true: the next part makes sense.
bool take(const Shared& bench, wire::GpuFigures& gpu, std::string_view part, int error) {
  if (error == 0) return true;
  add_note(gpu.note, fmt::format("{}: {}", part, cuda_text(bench->cuda, error)));
  if (is_broken(error)) gpu.figures["gpu_failed"] = error;
  return false;
}

void add_ecc(wire::GpuFigures& gpu, const EccCounts& before, const EccCounts& after) {
  const auto grown = [&](const char* figure, const auto& from, const auto& to) {
    if (from && to) gpu.figures[figure] = *to > *from ? static_cast<double>(*to - *from) : 0;
  };
  grown("gpu_ecc", before.uncorrected, after.uncorrected);
  grown("gpu_ecc_corrected", before.corrected, after.corrected);
}

void burn(const Shared& bench, Card& card, Gauges& gauges, wire::GpuFigures& gpu) {
  const Burn work = make_burn(card.compute_major());
  const EccCounts before = gauges.ecc();
  BurnResult result;
  const int error = card.burn(
      work, bench->plan.burn, bench->plan.launches, [&] { gauges.sample(); }, result);
  add_ecc(gpu, before, gauges.ecc());
  gauges.add_to(gpu.figures);
  if (result.seconds > 0) gpu.figures[std::string(work.figure)] = result.operations_a_second / 1e12;
  if (result.seconds > 0) gpu.figures["gpu_wrong"] = static_cast<double>(result.wrong);
  take(bench, gpu, "the burn", error);
}

void test_gpu(const Shared& bench, std::size_t at, wire::GpuFigures gpu) {
  Card card(bench->cuda);
  const auto publish = [&] {
    const std::lock_guard lock(bench->mutex);
    bench->gpus[at] = gpu;
  };
  now_doing(bench, at, "in NVML");
  Gauges gauges(bench->nvml, gpu.gpu.pci);
  gpu.gpu = gauges.name();
  add_note(gpu.note, gauges.why());
  publish();
  now_doing(bench, at, "opening the GPU");
  if (take(bench, gpu, "opening the GPU",
           card.open(static_cast<int>(at), bench->plan.copied, bench->plan.carried))) {
    now_doing(bench, at, "copying");
    CopyRates rates;
    const int error = card.copy(rates);
    const auto keep = [&](const char* figure, double bytes_a_second) {
      if (bytes_a_second > 0) gpu.figures[figure] = bytes_a_second / 1e9;
    };
    keep("gpu_to_device", rates.to_device);
    keep("gpu_to_host", rates.to_host);
    keep("gpu_memory", rates.memory);
    if (rates.compared) gpu.figures["gpu_wrong_copies"] = static_cast<double>(rates.wrong);
    publish();
    now_doing(bench, at, "in the burn");
    if (take(bench, gpu, "copies", error)) burn(bench, card, gauges, gpu);
  }
  card.close();
  publish();
  now_doing(bench, at, "");
}

// Each to the next one, one after the other: a ring shows every link that two GPUs share.
void test_links(const Shared& bench) {
  const std::size_t count = bench->gpus.size();
  for (std::size_t at = 0; at < count && count > 1; ++at) {
    if (bench->gpus[at].figures.contains("gpu_failed")) continue;
    now_doing(bench, at, "copying to the next GPU");
    double rate = 0;
    const int error = copy_to_peer(bench->cuda, static_cast<int>(at),
                                   static_cast<int>((at + 1) % count), bench->plan.copied, rate);
    const std::lock_guard lock(bench->mutex);
    take(bench, bench->gpus[at], "a copy to the next GPU", error);
    if (rate > 0) bench->gpus[at].figures["gpu_peer"] = rate / 1e9;
    bench->doing[at].clear();
  }
}

// The GPUs that the driver shows; a sentence where it shows no GPU.
std::string find_gpus(const Shared& bench, std::vector<wire::GpuFigures>& gpus) {
  const CudaTable& cuda = bench->cuda;
  int count = 0;
  const int started = cuda.init(0);
  if (started == kCudaNoDevice) return "the driver has no GPU";
  if (started != 0) return "the driver does not start: " + cuda_text(cuda, started);
  if (const int error = cuda.count(&count); error != 0)
    return "the driver does not count its GPUs: " + cuda_text(cuda, error);
  if (count <= 0) return "the driver shows no GPU to this process";
  for (int i = 0; i < count && i < kMostGpus; ++i) {
    wire::GpuFigures gpu;
    int device = 0;
    char text[128] = {};
    if (cuda.device(&device, i) == 0 && cuda.name(text, sizeof text - 1, device) == 0)
      gpu.model = text;
    std::memset(text, 0, sizeof text);
    if (cuda.pci(text, sizeof text - 1, device) == 0) gpu.gpu.pci = normal_pci(text);
    if (gpu.gpu.pci.empty()) gpu.gpu.pci = fmt::format("GPU {}", i);
    gpus.push_back(std::move(gpu));
  }
  return "";
}

void test_all(const Shared& bench) {
  std::vector<wire::GpuFigures> gpus;
  const std::string note = find_gpus(bench, gpus);
  std::unique_lock lock(bench->mutex);
  bench->note = note;
  bench->gpus = gpus;
  bench->doing.assign(gpus.size(), "starting");
  for (std::size_t i = 0; i < gpus.size(); ++i)
    run_aside([bench, i, gpu = gpus[i]] { test_gpu(bench, i, gpu); });
  bench->changed.wait(lock, [&] {
    return std::all_of(bench->doing.begin(), bench->doing.end(),
                       [](const std::string& what) { return what.empty(); });
  });
  lock.unlock();
  test_links(bench);
  lock.lock();
  bench->counted = true;
  bench->changed.notify_all();
}

}  // namespace

GpuBench bench_gpus(const CudaTable& cuda, const std::optional<NvmlTable>& nvml,
                    const GpuBenchPlan& plan) {
  const auto bench = std::make_shared<Bench>();
  bench->cuda = cuda;
  bench->nvml = nvml;
  bench->plan = plan;
  run_aside([bench] { test_all(bench); });
  std::unique_lock lock(bench->mutex);
  const Duration limit = plan.burn + plan.beside;
  GpuBench result;
  result.hanging = !bench->changed.wait_for(lock, limit, [&] { return bench->counted; });
  result.gpus = bench->gpus;
  result.note = bench->note;
  if (!result.hanging) return result;
  if (result.gpus.empty())
    result.note = fmt::format("the driver has not answered within {}", format_duration(limit));
  for (std::size_t i = 0; i < result.gpus.size(); ++i) {
    if (bench->doing[i].empty()) continue;
    result.gpus[i].figures["gpu_hung"] = 1;
    add_note(result.gpus[i].note,
             fmt::format("no answer within {}, {}", format_duration(limit), bench->doing[i]));
  }
  return result;
}

GpuBench bench_gpus(const GpuBenchPlan& plan) {
  const auto cuda = load_cuda();
  if (!cuda) return {{}, cuda.error().message(), false};
  return bench_gpus(*cuda, load_nvml(), plan);
}

}  // namespace stoker::agent
