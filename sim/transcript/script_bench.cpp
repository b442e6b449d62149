// Script: tests of nodes.
#include "sim/transcript/script.hpp"

namespace stoker::sim {
namespace {

// The second GPU of the node is the one of which something is said.
std::vector<wire::GpuFigures> benched_gpus(Words& words, const std::string& node) {
  std::vector<wire::GpuFigures> gpus(2);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const std::string at = std::to_string(i);
    gpus[i].gpu = {"0000:0" + at + ":00", "GPU-" + node + "-" + at, "4711" + at};
    gpus[i].model = "NVIDIA H200";
    gpus[i].figures = {{"gpu_gemm_bf16", 600 + i}, {"gpu_memory", 4200}, {"gpu_clock", 1980}};
  }
  wire::GpuFigures& gpu = gpus.back();
  gpu.figures["gpu_gemm_bf16"] *= words.real("gpu_gemm", 1);
  gpu.figures["gpu_clock"] *= words.real("gpu_clock", 1);
  gpu.figures["gpu_held_down"] = words.real("gpu_held_down");
  gpu.figures["gpu_wrong"] = words.real("gpu_wrong");
  if (words.flag("unread")) gpu.figures.clear(), gpu.note = words.quoted();
  return gpus;
}

}  // namespace

// bench began n02 [preflight] at-most 90s
Status Script::do_bench(Words& words) {
  if (!words.take("began")) return fail("bench began NODE at-most DURATION");
  wire::BenchBegan e;
  e.tested = {NodeName(words.next())};
  e.preflight = words.flag("preflight");
  e.at_most = words.duration("at-most");
  return say(e);
}

// benched n02 gemm 0.3 disk 1: n02 is on parole; its figures as shares of the two others'; or hung;
// alone: the others did not answer. preflight: all three are tested. gpus: each has two, gpu_gemm
// 0.5 gpu_clock 0.8 gpu_held_down 0.9 gpu_wrong 3 are of n02's second one, which may be `unread
// "why"`; no-gpu "why": n02 has none.
Status Script::do_benched(Words& words) {
  wire::NodesBenched e;
  const NodeName node(words.next());
  e.preflight = words.flag("preflight");
  const bool gpus = words.flag("gpus");
  e.tested = {node};
  const bool alone = words.flag("alone");
  for (const char* other : {"n01", "n03"}) {
    if (alone) break;
    const NodeName name(other);
    e.figures[name] = {{"gemm_f32", 100}, {"memory_copy", 20}, {"disk_write", 500}};
    if (e.preflight) e.tested.push_back(name);
    Words none("");
    if (gpus) e.gpus[name] = benched_gpus(none, other);
  }
  if (!words.flag("hung"))
    e.figures[node] = {{"gemm_f32", 100 * words.real("gemm", 1)},
                       {"memory_copy", 20},
                       {"disk_write", 500 * words.real("disk", 1)}};
  if (gpus) e.gpus[node] = benched_gpus(words, node.text);
  if (words.flag("no-gpu")) e.notes[node] = words.quoted();
  e.seconds = 2;
  return say(e);
}

}  // namespace stoker::sim
