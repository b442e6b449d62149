#include "worker/agent/gpu/gauges.hpp"

#include <algorithm>

namespace stoker::agent {
namespace {

constexpr int kProcessorClock = 1;  // NVML_CLOCK_SM
// Hardware slowdown, heat (by software, by hardware), power brake. Not the power cap, at which a
// healthy card works.
constexpr unsigned long long kHeldDown = 0x8 | 0x20 | 0x40 | 0x80;

}  // namespace

Gauges::Gauges(const std::optional<NvmlTable>& nvml, const std::string& pci) {
  name_.pci = pci;
  if (!nvml) {
    why_ = "libnvidia-ml.so.1 is not here";
    return;
  }
  for (const NvmlDevice& device : nvml_devices(*nvml)) {
    if (device.name.pci != pci) continue;
    nvml_ = &*nvml;
    device_ = device.handle;
    name_.uuid = device.name.uuid;
    name_.serial = device.name.serial;
  }
  if (nvml_ == nullptr) why_ = "NVML does not show this GPU";
}

EccCounts Gauges::ecc() const {
  EccCounts counts;
  if (nvml_ == nullptr || nvml_->ecc == nullptr) return counts;
  unsigned long long value = 0;
  if (nvml_->ecc(device_, 0, 0, &value) == 0) counts.corrected = value;
  if (nvml_->ecc(device_, 1, 0, &value) == 0) counts.uncorrected = value;
  return counts;
}

void Gauges::sample() {
  if (nvml_ == nullptr) return;
  unsigned megahertz = 0, celsius = 0;
  if (nvml_->clock != nullptr && nvml_->clock(device_, kProcessorClock, &megahertz) == 0) {
    clocks_ += megahertz;
    ++clock_samples_;
  }
  if (nvml_->temperature != nullptr && nvml_->temperature(device_, 0, &celsius) == 0)
    hottest_ = std::max(hottest_, static_cast<double>(celsius));
  unsigned long long reasons = 0;
  if (nvml_->held_down == nullptr || nvml_->held_down(device_, &reasons) != 0) return;
  ++held_samples_;
  if ((reasons & kHeldDown) != 0) ++held_;
}

void Gauges::add_to(std::map<std::string, double>& figures) const {
  if (clock_samples_ > 0) figures["gpu_clock"] = clocks_ / clock_samples_;
  if (hottest_ > 0) figures["gpu_celsius"] = hottest_;
  if (held_samples_ > 0) figures["gpu_held_down"] = static_cast<double>(held_) / held_samples_;
}

}  // namespace stoker::agent
