// The NVML table and what is read through it.
#include "worker/agent/node/nvml.hpp"

#include <cctype>
#include <chrono>
#include <cstring>
#include <dlfcn.h>
#include <thread>

namespace stoker::agent {
namespace {

constexpr unsigned long long kXidEvent = 0x8;  // nvmlEventTypeXidCriticalError
constexpr int kTimeout = 10;                   // NVML_ERROR_TIMEOUT
constexpr unsigned kGpusLimit = 64;

template <class F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}

std::string text_of(int (*ask)(void*, char*, unsigned), void* device) {
  char text[96] = {};  // NVML_DEVICE_UUID_V2_BUFFER_SIZE
  if (ask == nullptr || ask(device, text, sizeof text - 1) != 0) return "";
  return text;
}

}  // namespace

std::optional<NvmlTable> load_nvml(const char* name) {
  void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  NvmlTable t;
  const bool all = find(library, "nvmlInit_v2", t.init) &&
                   find(library, "nvmlShutdown", t.shutdown) &&
                   find(library, "nvmlDeviceGetCount_v2", t.count) &&
                   find(library, "nvmlDeviceGetHandleByIndex_v2", t.handle) &&
                   find(library, "nvmlDeviceGetPciInfo_v3", t.pci) &&
                   find(library, "nvmlEventSetCreate", t.event_set) &&
                   find(library, "nvmlDeviceRegisterEvents", t.register_events) &&
                   (find(library, "nvmlEventSetWait_v2", t.event_wait) ||
                    find(library, "nvmlEventSetWait", t.event_wait));
  if (!all) return std::nullopt;
  find(library, "nvmlDeviceGetTotalEccErrors", t.ecc);
  find(library, "nvmlDeviceGetRemappedRows", t.remapped);
  find(library, "nvmlDeviceGetUUID", t.uuid);
  find(library, "nvmlDeviceGetSerial", t.serial);
  find(library, "nvmlDeviceGetPowerUsage", t.power);
  find(library, "nvmlDeviceGetClockInfo", t.clock);
  find(library, "nvmlDeviceGetTemperature", t.temperature);
  find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", t.held_down);
  return t;
}

std::string normal_pci(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (const auto colon = text.find(':'); colon == 8) text.erase(0, 4);
  return text.substr(0, text.find('.'));
}

std::vector<NvmlDevice> nvml_devices(const NvmlTable& table) {
  std::vector<NvmlDevice> devices;
  unsigned count = 0;
  if (table.init() != 0) return devices;
  if (table.count(&count) != 0) count = 0;
  for (unsigned i = 0; i < count && i < kGpusLimit; ++i) {
    NvmlDevice device;
    NvmlPci pci;
    if (table.handle(i, &device.handle) != 0) continue;
    if (table.pci(device.handle, &pci) == 0)
      device.name.pci = normal_pci({pci.bus_id, ::strnlen(pci.bus_id, sizeof pci.bus_id)});
    device.name.uuid = text_of(table.uuid, device.handle);
    device.name.serial = text_of(table.serial, device.handle);
    devices.push_back(std::move(device));
  }
  if (devices.empty()) table.shutdown();
  return devices;
}

void GpuWatcher::read_counters(Gpu& gpu) const {
  unsigned long long errors = 0;
  if (table_.ecc != nullptr && table_.ecc(gpu.handle, 1, 0, &errors) == 0) gpu.uncorrected = errors;
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (table_.remapped != nullptr &&
      table_.remapped(gpu.handle, &corrected, &uncorrected, &pending, &failed) == 0) {
    gpu.remapped = corrected + uncorrected;
    gpu.pending = pending;
    gpu.failed = failed;
  }
}

std::optional<GpuWatcher> GpuWatcher::make(const NvmlTable& table) {
  GpuWatcher watcher;
  watcher.table_ = table;
  const std::vector<NvmlDevice> devices = nvml_devices(table);
  if (devices.empty()) return std::nullopt;
  if (table.event_set(&watcher.events_) != 0) {
    table.shutdown();
    return std::nullopt;
  }
  for (const NvmlDevice& device : devices) {
    Gpu gpu;
    gpu.handle = device.handle;
    gpu.name = device.name;
    table.register_events(gpu.handle, kXidEvent, watcher.events_);  // not on every GPU: MIG, vGPU
    watcher.read_counters(gpu);
    watcher.gpus_.push_back(gpu);
  }
  return watcher;
}

std::vector<GpuIdentity> GpuWatcher::gpus() const {
  std::vector<GpuIdentity> names;
  for (const Gpu& gpu : gpus_) names.push_back(gpu.name);
  return names;
}

double GpuWatcher::watts() const {
  double sum = 0;
  for (const Gpu& gpu : gpus_) {
    unsigned milliwatts = 0;
    if (table_.power == nullptr || table_.power(gpu.handle, &milliwatts) != 0) return 0;
    sum += milliwatts / 1000.0;
  }
  return sum;
}

std::vector<GpuNews> GpuWatcher::wait(unsigned timeout_ms) {
  std::vector<GpuNews> news;
  NvmlEvent event;
  const int answer = table_.event_wait(events_, &event, timeout_ms);
  if (answer != 0 && answer != kTimeout)  // not supported here: do not spin
    std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms));
  for (Gpu& gpu : gpus_) {
    if (answer == 0 && event.device == gpu.handle && (event.type & kXidEvent) != 0)
      news.push_back({gpu.name, static_cast<int>(event.data),
                      "NVML: Xid " + std::to_string(event.data) + " on " + gpu.name.pci});
    const Gpu before = gpu;
    read_counters(gpu);
    const auto tell = [&](const char* what, unsigned long long from, unsigned long long to) {
      if (to > from)
        news.push_back({gpu.name, std::nullopt,
                        "GPU " + gpu.name.pci + ": " + what + " " + std::to_string(from) + " -> " +
                            std::to_string(to)});
    };
    tell("uncorrected ECC errors", before.uncorrected, gpu.uncorrected);
    tell("remapped rows", before.remapped, gpu.remapped);
    tell("row remaps pending (a reset is needed)", before.pending, gpu.pending);
    tell("row remaps failed (replace the GPU)", before.failed, gpu.failed);
  }
  return news;
}

}  // namespace stoker::agent
