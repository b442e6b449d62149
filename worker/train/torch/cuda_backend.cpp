#include "worker/train/torch/cuda_backend.hpp"

#include <ATen/Context.h>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>
#include <thread>
#include <torch/version.h>

#include "common/os/files.hpp"
#include "worker/train/comm/nccl_comm.hpp"

namespace stoker::train {
namespace {

constexpr const char* kDevice = "train.device: cuda";
constexpr const char* kInstall = "install the packages of deploy/libtorch-gpu.txt beside LibTorch";

GpuBuild build() {
  GpuBuild b;
  b.architectures = {STOKER_CUDA_ARCHITECTURES};
  b.libtorch = TORCH_VERSION;
  return b;
}

// The folder of the libtorch_cpu.so that was loaded.
std::string libtorch_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&at::globalContext), &info) == 0) return ".";
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}

// "2.11.0", from the package's version.py; that of the build where there is no package.
std::string loaded_libtorch() {
  constexpr std::size_t kMost = 1u << 16;
  const auto text = os::read_file(libtorch_folder() + "/../version.py", kMost);
  const std::string key = "__version__ = '";
  const auto at = text ? text->find(key) : std::string::npos;
  if (at == std::string::npos) return TORCH_VERSION;
  const auto begin = at + key.size();
  return text->substr(begin, text->find_first_of("+'", begin) - begin);
}

// Its operators register themselves.
Status open_torch_cuda() {
  const std::string path = libtorch_folder() + "/libtorch_cuda.so";
  if (::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char* why = ::dlerror();
    return fail(fmt::format("cannot open LibTorch's part for the GPU: {}",
                            why != nullptr ? why : "unknown reason"),
                kDevice, kInstall);
  }
  if (!at::hasCUDA()) return fail("LibTorch does not start on the GPU", kDevice, kInstall);
  return ok();
}

// The same bits in every run: cuBLAS's own memory of fixed size, sums without atomic additions,
// f32 products in f32.
void pin_gpu_numerics() {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  at::globalContext().setDeterministicAlgorithms(true, true);
  at::globalContext().setDeterministicFillUninitializedMemory(false);  // we write all that we read
  at::globalContext().setAllowTF32CuBLAS(false);
}

std::string& chosen_card() {
  static std::string bus;
  return bus;
}

}  // namespace

Result<std::unique_ptr<Device>> open_gpu(const RankEnvironment& environment, bool& nodes_fault) {
  nodes_fault = false;
  STOKER_TRY(place, read_node_place(environment.world));
  const GpuFacts facts = gpu_facts();
  STOKER_TRY(ordinal, choose_gpu(facts, build(), place, loaded_libtorch(), nodes_fault));
  STOKER_TRY_STATUS(open_torch_cuda());
  pin_gpu_numerics();
  nodes_fault = true;
  STOKER_TRY(device, open_cuda(ordinal));
  nodes_fault = false;
  chosen_card() = facts.cards[static_cast<std::size_t>(ordinal)].bus;
  return std::unique_ptr<Device>(std::move(device));
}

Result<std::unique_ptr<Comm>> connect_gpus(const GlooOptions& options, Device& device) {
  STOKER_TRY(nccl, open_nccl());
  STOKER_TRY(met, connect_gloo(options));
  const std::shared_ptr<Comm> gloo(std::move(met));
  STOKER_TRY_STATUS(check_own_gpu(*gloo, os::host_name(), chosen_card(), options.deadline));
  auto& card = static_cast<CudaDevice&>(device);
  const NcclPorts ports{nccl, [&card](void* stream) { return card.query(stream); },
                        [] { return monotonic_now(); },
                        [](Duration d) { std::this_thread::sleep_for(d); }};
  return connect_nccl({options.mesh, options.rank, options.deadline}, ports, card, store_of(gloo));
}

std::map<std::string, std::string> gpu_numerics() {
  return {{"device", "cuda"}, {"cuda", cuda_version_text(gpu_facts().runtime)}};
}

}  // namespace stoker::train
