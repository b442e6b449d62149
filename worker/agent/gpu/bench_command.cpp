#include "worker/agent/gpu/bench_command.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <unistd.h>

#include "common/os/process.hpp"
#include "common/os/self.hpp"
#include "common/printable.hpp"
#include "wire/bench_report.hpp"
#include "worker/agent/gpu/gpu_bench.hpp"
#include "worker/agent/node/bench.hpp"

namespace stoker::agent {
namespace {

struct GpuFigure {  // a line of --json
  std::string name;
  double value = 0;
  std::string unit, note, gpu, model;
  STOKER_FIELDS(GpuFigure, name, value, unit, note, gpu, model)
};

const char* unit_of(std::string_view figure) {
  if (figure.starts_with("gpu_gemm")) return "TFLOP/s";
  if (figure == "gpu_clock") return "MHz";
  if (figure == "gpu_celsius") return "C";
  if (figure == "gpu_memory" || figure == "gpu_peer" || figure.starts_with("gpu_to_"))
    return "GB/s";
  return "";
}

NodeName own_name() {
  if (const char* name = std::getenv("SLURMD_NODENAME"); name != nullptr && *name != '\0')
    return NodeName(name);
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return NodeName(std::string(name).substr(0, std::string_view(name).find('.')));
}

void print_line(std::string_view name, double value, std::string_view unit,
                const std::string& note) {
  fmt::print("{:<16} {:>10.1f} {:<8} {}\n", name, value, unit, printable(note));
}

void print_gpus(const BenchOptions& options, const GpuBench& bench) {
  for (const wire::GpuFigures& gpu : bench.gpus)
    for (const auto& [name, value] : gpu.figures) {
      const GpuFigure figure{name, value, unit_of(name), gpu.note, gpu.gpu.pci, gpu.model};
      if (options.json)
        fmt::print("{}\n", to_json_text(figure));
      else
        print_line(name, value, figure.unit, figure.gpu + ", " + figure.model);
    }
  if (options.json) return;
  for (const wire::GpuFigures& gpu : bench.gpus)
    if (!gpu.note.empty()) fmt::print("GPU {}: {}\n", gpu.gpu.pci, printable(gpu.note));
  if (!bench.note.empty()) fmt::print("no GPU was tested: {}\n", printable(bench.note));
}

}  // namespace

int bench_command(const BenchOptions& options) {
  wire::BenchReport report;
  report.node = own_name();
  if (!options.gpus)
    for (const BenchFigure& figure : bench_node(options.directory)) {
      if (figure.value > 0) report.figures[figure.name] = figure.value;
      if (options.report) continue;
      if (options.json)
        fmt::print("{}\n", to_json_text(figure));
      else
        print_line(figure.name, figure.value, figure.unit, figure.note);
    }
  GpuBenchPlan plan;
  plan.burn = std::chrono::seconds(options.burn_s);
  GpuBench bench = bench_gpus(plan);
  if (!options.report) print_gpus(options, bench);
  report.gpus = std::move(bench.gpus);
  report.note = std::move(bench.note);
  if (options.report) fmt::print("{}\n", to_json_text(report));
  std::fflush(nullptr);
  if (bench.hanging) ::_exit(0);  // a thread that is in the driver would hold the exit up
  return 0;
}

void bench_gpus_aside(Duration burn, wire::Benched& benched) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(burn).count();
  os::SpawnOptions child;
  child.argv = {os::own_program("stoker-agent"), "bench", "--gpus", "--report", "--burn",
                std::to_string(seconds)};
  child.environment = os::current_environment();
  child.parent_death_signal = SIGKILL;
  const Duration limit = burn + GpuBenchPlan().beside + 10s;
  const auto output = os::run_command(child, limit, 1u << 20);
  if (!output) {
    benched.note = "the test of the GPUs: " + output.error().message();
    return;
  }
  if (!output->status.ok()) {
    benched.note = "the test of the GPUs ended with " + output->status.text();
    return;
  }
  auto report = from_json_text<wire::BenchReport>(output->out, "stoker-agent bench");
  if (!report) {
    benched.note = report.error().message();
    return;
  }
  benched.gpus = std::move(report->gpus);
  benched.note = std::move(report->note);
}

}  // namespace stoker::agent
