// NVML's readings of one GPU around a burn. Each of them may be missing.
#pragma once

#include <optional>
#include <string>

#include "wire/agent_event.hpp"
#include "worker/agent/node/nvml.hpp"

namespace stoker::agent {

struct EccCounts {
  std::optional<unsigned long long> corrected, uncorrected;
};

class Gauges {
 public:
  // The GPU at this place of the bus; `why` = why nothing of it can be read.
  Gauges(const std::optional<NvmlTable>& nvml, const std::string& pci);

  [[nodiscard]] const wire::GpuName& name() const { return name_; }
  [[nodiscard]] const std::string& why() const { return why_; }
  [[nodiscard]] EccCounts ecc() const;
  void sample();  // clock, what holds it down, temperature
  // Adds what was seen to the figures.
  void add_to(std::map<std::string, double>& figures) const;

 private:
  const NvmlTable* nvml_ = nullptr;
  void* device_ = nullptr;
  wire::GpuName name_;
  std::string why_;
  double clocks_ = 0, hottest_ = 0;
  unsigned clock_samples_ = 0, held_samples_ = 0, held_ = 0;
};

}  // namespace stoker::agent
