// What a node reports about itself: free memory, /dev/shm, kernel-log lines, GPU events. The two
// watchers have threads of their own and do nothing where their source is not there or not
// readable; the return values say which ones work.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "wire/agent_event.hpp"

namespace stoker::agent {

std::uint64_t free_memory_bytes();  // MemAvailable; 0 = not known
std::uint64_t free_shm_bytes();     // of /dev/shm; 0 = not known

using HealthSink = std::function<void(wire::AgentBody)>;  // called from the watcher's thread

// Follows /dev/kmsg from now on: lines that diagnose/ knows as kernel events. False: not readable.
bool watch_kernel_log(const NodeName& node, const std::shared_ptr<std::atomic<bool>>& stop,
                      HealthSink sink, std::vector<wire::GpuName> gpus = {});

// NVML through a table of function pointers (opened with dlopen): Xid events, and growing ECC and
// row-remap counters as notices. Returns the GPUs that it watches; none: no NVML or no GPU.
struct GpuWatch {
  std::vector<wire::GpuName> gpus;
  std::shared_ptr<std::atomic<double>> watts;  // of all of them, each second; 0 = not measured
};
GpuWatch watch_gpus(const NodeName& node, const std::shared_ptr<std::atomic<bool>>& stop,
                    HealthSink sink);
// Adds the serial number of the GPU that a line is about, where it is one of these.
void name_gpu(wire::KernelLine& line, const std::vector<wire::GpuName>& gpus);

// Which sources work on this node, for people (`stoker doctor`).
wire::HealthSources health_sources(const NodeName& node, bool kernel_log,
                                   const std::vector<wire::GpuName>& gpus);

}  // namespace stoker::agent
