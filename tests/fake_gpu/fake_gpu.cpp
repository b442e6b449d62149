// A driver without a GPU: libcuda.so.1 and libnvidia-ml.so.1 for tests of the node bench. It moves
// memory, computes what the two burns compute for one warp, and plays what FAKE_GPU says, read when
// it starts:
//   gpus=4       how many there are (1)        none=1    the driver has no GPU
//   major=7      compute capability (9)        old=1     the driver knows no such PTX
//   slow=2       GPU 2 takes ten times as long wrong=2   one of its sums is off by one
//   flipped=2    a copy to the host changes a byte
//   ecc=2        its uncorrected errors grow   held=2    heat holds its clocks down
//   hung=2       its kernels never end         broken=2  its kernels fail
//   busy=2       another process has it alone
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kProcessors = 2;
constexpr unsigned long long kFree = 64u << 20;
using Pointer = std::uint64_t;

struct Gpu {
  int ordinal = 0;
  unsigned reads = 0;  // of its error counter
};
std::mutex g_mutex;  // of all that start() sets
std::string g_text = "not started";
std::map<std::string, int> g_plays;
Gpu g_gpus[16];
thread_local Gpu* t_gpu = nullptr;
const char kTensor = 't', kPlain = 'p';

void start() {
  const std::lock_guard lock(g_mutex);
  const char* text = std::getenv("FAKE_GPU");
  if (g_text == (text == nullptr ? "" : text)) return;
  g_text = text == nullptr ? "" : text;
  g_plays.clear();
  std::istringstream words(g_text);
  for (std::string word; words >> word;)
    g_plays[word.substr(0, word.find('='))] = std::atoi(word.c_str() + word.find('=') + 1);
  for (int i = 0; i < 16; ++i) g_gpus[i] = {i, 0};
}

int played(const char* what, int otherwise) {
  const std::lock_guard lock(g_mutex);
  const auto found = g_plays.find(what);
  return found == g_plays.end() ? otherwise : found->second;
}

bool plays(const char* what, int ordinal) {
  return played(what, -1) == ordinal;
}

template <class T>
T* at(Pointer p) {
  return std::bit_cast<T*>(p);
}

float from_half(std::uint32_t half) {
  return std::bit_cast<float>(half << 16);
}

std::uint32_t hashed(std::uint32_t hash, float value) {
  return hash * 31 + std::bit_cast<std::uint32_t>(value);
}

// D += A B over the fragments of all lanes; the layout is that of the PTX manual.
std::vector<std::uint32_t> tensor_warp(const std::uint32_t* in, std::uint32_t rounds) {
  double a[16][16] = {}, b[8][16][8] = {};
  for (int lane = 0; lane < 32; ++lane)
    for (int part = 0; part < 8; ++part) {
      const std::uint32_t word = in[lane * 24 + part];
      const int row = lane / 4 + (part % 2) * 8, column = lane % 4 * 2 + (part % 4 / 2) * 8;
      a[row][column] += from_half(word & 0xffff);  // A0 and A1 meet the same B
      a[row][column + 1] += from_half(word >> 16);
    }
  for (int lane = 0; lane < 32; ++lane)
    for (int j = 0; j < 8; ++j)
      for (int part = 0; part < 2; ++part) {
        const std::uint32_t word = in[lane * 24 + 8 + 2 * j + part];
        b[j][lane % 4 * 2 + part * 8][lane / 4] = from_half(word & 0xffff);
        b[j][lane % 4 * 2 + part * 8 + 1][lane / 4] = from_half(word >> 16);
      }
  std::vector<std::uint32_t> hashes(32);
  for (int lane = 0; lane < 32; ++lane)
    for (int j = 0; j < 8; ++j)
      for (int part = 0; part < 4; ++part) {
        const int row = lane / 4 + part / 2 * 8, column = lane % 4 * 2 + part % 2;
        double sum = 0;
        for (int k = 0; k < 16; ++k) sum += a[row][k] * b[j][k][column];
        auto& hash = hashes[static_cast<std::size_t>(lane)];
        hash = hashed(hash, static_cast<float>(sum * rounds));
      }
  return hashes;
}

std::vector<std::uint32_t> plain_warp(const std::uint32_t* in, std::uint32_t rounds) {
  std::vector<std::uint32_t> hashes(32);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t* words = in + lane * 20;
    const float a = std::bit_cast<float>(words[0]) + std::bit_cast<float>(words[1]);
    for (int j = 0; j < 16; ++j)
      hashes[lane] =
          hashed(hashes[lane], a * std::bit_cast<float>(words[4 + j]) * static_cast<float>(rounds));
  }
  return hashes;
}

}  // namespace

// The driver.
extern "C" {
int cuInit(unsigned) {
  start();
  return plays("none", 1) ? 100 : 0;
}
int cuDriverGetVersion(int* version) {
  return *version = 12040, 0;
}
int cuDeviceGetCount(int* count) {
  return *count = played("gpus", 1), 0;
}
int cuDeviceGet(int* device, int ordinal) {
  return *device = ordinal, 0;
}
int cuDeviceGetName(char* text, int size, int) {
  return std::snprintf(text, static_cast<std::size_t>(size), "Fake GPU") > 0 ? 0 : 1;
}
int cuDeviceGetPCIBusId(char* text, int size, int device) {
  return std::snprintf(text, static_cast<std::size_t>(size), "0000:0%X:00.0", 10 + device) > 0 ? 0
                                                                                               : 1;
}
int cuDeviceGetAttribute(int* value, int which, int) {
  *value = which == 16 ? kProcessors : played("major", 9);
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (plays("busy", device)) return 46;  // CUDA_ERROR_DEVICE_UNAVAILABLE
  return *context = &g_gpus[device], 0;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  return 0;
}
int cuCtxSetCurrent(void* context) {
  return t_gpu = static_cast<Gpu*>(context), 0;
}
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return *free = *total = kFree, 0;
}
int cuMemAlloc_v2(Pointer* memory, std::size_t size) {
  return *memory = std::bit_cast<Pointer>(std::malloc(size)), 0;
}
int cuMemFree_v2(Pointer memory) {
  return std::free(at<void>(memory)), 0;
}
int cuMemHostAlloc(void** memory, std::size_t size, unsigned) {
  return *memory = std::malloc(size), 0;
}
int cuMemFreeHost(void* memory) {
  return std::free(memory), 0;
}
int cuMemsetD32_v2(Pointer memory, unsigned word, std::size_t words) {
  for (std::size_t i = 0; i < words; ++i) at<std::uint32_t>(memory)[i] = word;
  return 0;
}
int cuMemcpyHtoD_v2(Pointer to, const void* from, std::size_t size) {
  return std::memcpy(at<void>(to), from, size), 0;
}
int cuMemcpyDtoH_v2(void* to, Pointer from, std::size_t size) {
  std::memcpy(to, at<void>(from), size);
  if (plays("flipped", t_gpu->ordinal)) static_cast<char*>(to)[size / 2] ^= 1;
  return 0;
}
int cuMemcpyDtoD_v2(Pointer to, Pointer from, std::size_t size) {
  return std::memcpy(at<void>(to), at<void>(from), size), 0;
}
int cuDeviceCanAccessPeer(int* answer, int, int) {
  return *answer = 1, 0;
}
int cuCtxEnablePeerAccess(void*, unsigned) {
  return 0;
}
int cuMemcpyPeer(Pointer to, void*, Pointer from, void*, std::size_t size) {
  return std::memcpy(at<void>(to), at<void>(from), size), 0;
}
int cuModuleLoadData(void** module, const void* image) {
  if (plays("old", 1)) return 222;  // CUDA_ERROR_UNSUPPORTED_PTX_VERSION
  const bool tensor = std::strstr(static_cast<const char*>(image), "mma.sync") != nullptr;
  return *module = const_cast<char*>(tensor ? &kTensor : &kPlain), 0;
}
int cuModuleUnload(void*) {
  return 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = module;
  return std::strcmp(name, "burn") == 0 ? 0 : 500;  // CUDA_ERROR_NOT_FOUND
}
int cuLaunchKernel(void* function, unsigned grid, unsigned, unsigned, unsigned block, unsigned,
                   unsigned, unsigned, void*, void** arguments, void**) {
  const int ordinal = t_gpu->ordinal;
  if (plays("broken", ordinal)) return 719;  // CUDA_ERROR_LAUNCH_FAILED
  while (plays("hung", ordinal)) std::this_thread::sleep_for(std::chrono::seconds(1));
  const auto* in = at<const std::uint32_t>(*static_cast<Pointer*>(arguments[0]));
  auto* out = at<std::uint32_t>(*static_cast<Pointer*>(arguments[1]));
  const std::uint32_t rounds = *static_cast<std::uint32_t*>(arguments[2]);
  const auto hashes = function == &kTensor ? tensor_warp(in, rounds) : plain_warp(in, rounds);
  for (std::size_t i = 0; i < std::size_t{grid} * block; ++i) out[i] += hashes[i % 32];
  if (plays("wrong", ordinal)) out[77] += 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(plays("slow", ordinal) ? 20 : 2));
  return 0;
}
int cuCtxSynchronize() {
  return 0;
}
int cuGetErrorString(int error, const char** text) {
  *text = error == 46 ? "all CUDA-capable devices are busy or unavailable" : "an error";
  return 0;
}

// NVML.
int nvmlInit_v2() {
  start();
  return plays("none", 1) ? 9 : 0;  // NVML_ERROR_DRIVER_NOT_LOADED
}
int nvmlShutdown() {
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  return *count = static_cast<unsigned>(played("gpus", 1)), 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned at, void** device) {
  return *device = &g_gpus[at], 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, void* info) {
  const int ordinal = static_cast<Gpu*>(device)->ordinal;
  char* bus_id = static_cast<char*>(info) + 36;  // behind nvmlPciInfo_t's other members
  return std::snprintf(bus_id, 32, "00000000:0%X:00.0", 10 + ordinal) > 0 ? 0 : 1;
}
int nvmlEventSetCreate(void** set) {
  return *set = g_gpus, 0;
}
int nvmlDeviceRegisterEvents(void*, unsigned long long, void*) {
  return 0;
}
int nvmlEventSetWait_v2(void*, void*, unsigned timeout_ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms));
  return 10;  // NVML_ERROR_TIMEOUT
}
int nvmlDeviceGetTotalEccErrors(void* device, int uncorrected, int, unsigned long long* errors) {
  auto* gpu = static_cast<Gpu*>(device);
  *errors = 5;
  if (uncorrected != 0 && plays("ecc", gpu->ordinal)) *errors += gpu->reads++;
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  const int ordinal = static_cast<Gpu*>(device)->ordinal;
  return std::snprintf(text, size, "GPU-fake-%d", ordinal) > 0 ? 0 : 1;
}
int nvmlDeviceGetSerial(void* device, char* text, unsigned size) {
  const int ordinal = static_cast<Gpu*>(device)->ordinal;
  return std::snprintf(text, size, "15647%d", ordinal) > 0 ? 0 : 1;
}
int nvmlDeviceGetClockInfo(void* device, int, unsigned* megahertz) {
  return *megahertz = plays("held", static_cast<Gpu*>(device)->ordinal) ? 1200 : 1980, 0;
}
int nvmlDeviceGetTemperature(void* device, int, unsigned* celsius) {
  return *celsius = plays("held", static_cast<Gpu*>(device)->ordinal) ? 91 : 60, 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  return *reasons = plays("held", static_cast<Gpu*>(device)->ordinal) ? 0x40 : 0x4, 0;
}
}
