// NVML behind one table of function pointers, opened with dlopen: a node without it still runs, and
// tests put a fake table in its place. Structures and constants as in nvml.h of CUDA 11 to 13.
// Needs nothing but the standard library. Single-threaded; `wait` blocks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace stoker::agent {

struct NvmlEvent {  // nvmlEventData_t
  void* device = nullptr;
  unsigned long long type = 0, data = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};
struct NvmlPci {  // nvmlPciInfo_t
  char legacy[16] = {};
  unsigned domain = 0, bus = 0, device = 0, device_id = 0, subsystem_id = 0;
  char bus_id[32] = {};
};

struct NvmlTable {  // 0 = NVML_SUCCESS
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, void**) = nullptr;
  int (*pci)(void*, NvmlPci*) = nullptr;
  int (*event_set)(void**) = nullptr;
  int (*register_events)(void*, unsigned long long, void*) = nullptr;
  int (*event_wait)(void*, NvmlEvent*, unsigned timeout_ms) = nullptr;
  // Optional, by GPU and driver:
  int (*ecc)(void*, int uncorrected, int aggregate, unsigned long long*) = nullptr;
  int (*remapped)(void*, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  int (*uuid)(void*, char*, unsigned length) = nullptr;
  int (*serial)(void*, char*, unsigned length) = nullptr;
  int (*power)(void*, unsigned* milliwatts) = nullptr;
  int (*clock)(void*, int which, unsigned* megahertz) = nullptr;
  int (*temperature)(void*, int sensor, unsigned* celsius) = nullptr;
  int (*held_down)(void*, unsigned long long* reasons) = nullptr;  // the clocks, and by what
};
// Empty: libnvidia-ml.so.1 or one of its functions is not there.
std::optional<NvmlTable> load_nvml(const char* library = "libnvidia-ml.so.1");

struct GpuIdentity {
  std::string pci, uuid, serial;  // "" where the driver does not tell
};
// "00000000:CB:00.0" -> "0000:cb:00".
std::string normal_pci(std::string text);

struct NvmlDevice {
  void* handle = nullptr;
  GpuIdentity name;
};
// Starts NVML; the GPUs that it shows. Empty: it does not start, or the node has no GPU.
std::vector<NvmlDevice> nvml_devices(const NvmlTable& table);

struct GpuNews {
  GpuIdentity gpu;         // pci: "0000:cb:00"
  std::optional<int> xid;  // an Xid event; else a counter that grew
  std::string text;
};

class GpuWatcher {
 public:
  // Empty: NVML does not start or there is no GPU.
  static std::optional<GpuWatcher> make(const NvmlTable& table);
  // Waits for an Xid at most `timeout_ms`, then compares the counters with those before.
  std::vector<GpuNews> wait(unsigned timeout_ms);
  [[nodiscard]] std::vector<GpuIdentity> gpus() const;
  // Of all GPUs together; 0: not every one measures it.
  [[nodiscard]] double watts() const;

 private:
  struct Gpu {
    void* handle = nullptr;
    GpuIdentity name;
    unsigned long long uncorrected = 0;
    unsigned remapped = 0, pending = 0, failed = 0;
  };
  void read_counters(Gpu& gpu) const;
  NvmlTable table_;
  std::vector<Gpu> gpus_;
  void* events_ = nullptr;
};

}  // namespace stoker::agent
