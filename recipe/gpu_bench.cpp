#include "recipe/gpu_bench.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace stoker::recipe {
namespace {

// How far below the median of the others a figure must lie to convict, at least. Cards of one
// model differ by a few percent with their silicon and their cooling; copies share their way to
// the host with other GPUs.
struct Depth {
  const char* figure;
  double share;
};
constexpr Depth kDepths[] = {
    {"gpu_gemm_bf16", 0.12}, {"gpu_gemm_f32", 0.12}, {"gpu_clock", 0.15}, {"gpu_memory", 0.10},
    {"gpu_to_device", 0.40}, {"gpu_to_host", 0.40},  {"gpu_peer", 0.40}};
// In units of the fleet's spread: 1.4826 x the median distance from the median is a standard
// deviation where readings scatter as usual.
constexpr double kSpreads = 6, kDeviation = 1.4826;

// The gravest first.
constexpr const char* kBadByThemselves[] = {"gpu_wrong", "gpu_wrong_copies", "gpu_ecc",
                                            "gpu_failed"};

std::optional<double> reading(const NodeFigures& figures, const std::string& name) {
  const auto found = figures.find(name);
  if (found == figures.end() || !std::isfinite(found->second) || found->second <= 0) return {};
  return found->second;
}

double middle(std::vector<double> values) {  // of at least one; the lower one: in doubt for the GPU
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

struct Usual {
  double median = 0, limit = 0;
};

std::optional<Usual> usual_of(const std::vector<double>& values, double share) {
  if (values.size() < kLeastPeers) return {};
  const double median = middle(values);
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(std::abs(value - median));
  const double spread = kSpreads * kDeviation * middle(distances);
  return Usual{median, median - std::max(share * median, spread)};
}

struct Gpu {
  const NodeName& node;
  const GpuReading& reading;
};

// A median of so many says as much as one of all.
std::vector<Gpu> thinned(const std::vector<Gpu>& gpus) {
  constexpr std::size_t kMostCompared = 512;
  if (gpus.size() <= kMostCompared) return gpus;
  std::vector<Gpu> some;
  for (std::size_t i = 0; i < kMostCompared; ++i)
    some.push_back(gpus[i * gpus.size() / kMostCompared]);
  return some;
}

// Of its kind: those of the nodes that are not judged; where they are too few, all but itself.
std::vector<Gpu> peers_of(const Gpu& one, const std::vector<Gpu>& all,
                          const std::vector<NodeName>& tested) {
  std::vector<Gpu> others, elsewhere;
  for (const Gpu& gpu : all) {
    if (&gpu.reading == &one.reading || gpu.reading.model != one.reading.model) continue;
    others.push_back(gpu);
    if (!is_among(tested, gpu.node)) elsewhere.push_back(gpu);
  }
  return thinned(elsewhere.size() >= kLeastPeers ? elsewhere : others);
}

std::optional<PoorGpu> bad_by_itself(const Gpu& gpu, const std::vector<Gpu>& others) {
  for (const char* figure : kBadByThemselves)
    if (const auto value = reading(gpu.reading.figures, figure))
      return PoorGpu{gpu.node, gpu.reading.pci, figure, *value, 0, 0, ""};
  if (!reading(gpu.reading.figures, "gpu_hung")) return {};
  const auto finished = std::count_if(others.begin(), others.end(), [](const Gpu& other) {
    return !reading(other.reading.figures, "gpu_hung") && !other.reading.figures.empty();
  });
  if (static_cast<std::size_t>(finished) < kLeastPeers) return {};
  return PoorGpu{gpu.node, gpu.reading.pci, "gpu_hung", 1, 0, 0, ""};
}

std::optional<PoorGpu> below_the_others(const Gpu& gpu, const std::vector<Gpu>& others) {
  std::optional<PoorGpu> worst;
  double depth = 1;
  for (const Depth& known : kDepths) {
    const auto value = reading(gpu.reading.figures, known.figure);
    if (!value) continue;
    std::vector<double> values;
    for (const Gpu& other : others)
      if (const auto theirs = reading(other.reading.figures, known.figure))
        values.push_back(*theirs);
    const auto usual = usual_of(values, known.share);
    if (!usual || *value >= usual->limit || *value / usual->limit >= depth) continue;
    depth = *value / usual->limit;
    worst =
        PoorGpu{gpu.node, gpu.reading.pci, known.figure, *value, usual->median, usual->limit, ""};
  }
  return worst;
}

std::string digits(double value) {
  return value < 100 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

std::string explanation(const NodeFigures& figures) {
  const auto held = reading(figures, "gpu_held_down");
  const auto celsius = reading(figures, "gpu_celsius");
  if (!held) return "";
  return fmt::format("; heat or the hardware held its clocks down in {:.0f} % of the burn{}",
                     100 * *held, celsius ? fmt::format(", {:.0f} C at most", *celsius) : "");
}

}  // namespace

std::vector<PoorGpu> judge_gpus(const std::vector<NodeName>& tested, const NodeGpus& gpus) {
  std::vector<Gpu> all;
  for (const auto& [node, list] : gpus)
    for (const GpuReading& one : list) all.push_back({node, one});
  std::vector<PoorGpu> poor;
  for (const Gpu& gpu : all) {
    if (!is_among(tested, gpu.node)) continue;
    const std::vector<Gpu> others = peers_of(gpu, all, tested);
    auto found = bad_by_itself(gpu, others);
    if (!found) found = below_the_others(gpu, others);
    if (!found) continue;
    found->more = explanation(gpu.reading.figures);
    poor.push_back(std::move(*found));
  }
  return poor;
}

void keep_faults(NodeFigures& figures, const NodeFigures& before) {
  for (const char* figure : kBadByThemselves)
    if (const auto seen = reading(before, figure))
      figures[figure] = std::max(*seen, reading(figures, figure).value_or(0));
}

std::string bench_text(const PoorGpu& poor) {
  const std::string gpu = "GPU " + poor.pci;
  if (poor.usual > 0)
    return fmt::format("{}: {} {}, below {}; the median of the others is {}{}", gpu, poor.figure,
                       digits(poor.value), digits(poor.limit), digits(poor.usual), poor.more);
  if (poor.figure == "gpu_hung") return gpu + " did not finish its test though others did";
  if (poor.figure == "gpu_failed")
    return fmt::format("{} failed in its test (CUDA error {:.0f}){}", gpu, poor.value, poor.more);
  if (poor.figure == "gpu_ecc")
    return fmt::format("{}: {:.0f} uncorrected ECC errors in its test{}", gpu, poor.value,
                       poor.more);
  if (poor.figure == "gpu_wrong_copies")
    return fmt::format("{}: {:.0f} bytes came back different from a copy{}", gpu, poor.value,
                       poor.more);
  return fmt::format("{} computed {:.0f} sums wrong{}", gpu, poor.value, poor.more);
}

}  // namespace stoker::recipe
