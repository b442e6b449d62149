#include "worker/agent/gpu/cuda_driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace stoker::agent {

Result<CudaTable> load_cuda(const char* name) {
  void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(fmt::format("{} is not here: no NVIDIA driver", name));
  std::string missing;
  const auto find = [&](const char* symbol, auto& function) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, symbol));
    if (function == nullptr && missing.empty()) missing = symbol;
  };
  CudaTable t;
  find("cuInit", t.init);
  find("cuDriverGetVersion", t.version);
  find("cuDeviceGetCount", t.count);
  find("cuDeviceGet", t.device);
  find("cuDeviceGetName", t.name);
  find("cuDeviceGetPCIBusId", t.pci);
  find("cuDeviceGetAttribute", t.attribute);
  find("cuDevicePrimaryCtxRetain", t.retain);
  find("cuDevicePrimaryCtxRelease_v2", t.release);
  find("cuCtxSetCurrent", t.use);
  find("cuMemGetInfo_v2", t.memory);
  find("cuMemAlloc_v2", t.allocate);
  find("cuMemFree_v2", t.deallocate);
  find("cuMemHostAlloc", t.allocate_host);
  find("cuMemFreeHost", t.deallocate_host);
  find("cuMemsetD32_v2", t.fill);
  find("cuMemcpyHtoD_v2", t.to_device);
  find("cuMemcpyDtoH_v2", t.to_host);
  find("cuMemcpyDtoD_v2", t.copy);
  find("cuDeviceCanAccessPeer", t.can_reach);
  find("cuCtxEnablePeerAccess", t.reach);
  find("cuMemcpyPeer", t.copy_peer);
  find("cuModuleLoadData", t.load);
  find("cuModuleUnload", t.unload);
  find("cuModuleGetFunction", t.function);
  find("cuLaunchKernel", t.launch);
  find("cuCtxSynchronize", t.wait);
  find("cuGetErrorString", t.error_text);
  if (!missing.empty())
    return fail(fmt::format("{} has no {}: the driver is older than CUDA 11", name, missing));
  return t;
}

std::string cuda_text(const CudaTable& cuda, int error) {
  const char* text = nullptr;
  if (cuda.error_text(error, &text) != 0 || text == nullptr) text = "an error without a name";
  return fmt::format("{} ({})", text, error);
}

}  // namespace stoker::agent
