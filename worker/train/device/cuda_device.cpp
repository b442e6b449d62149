#include "worker/train/device/cuda_device.hpp"

#include <algorithm>
#include <cstdlib>
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <mutex>

#include "kernels/elementwise.hpp"
#include "kernels/global_norm.hpp"
#include "worker/train/device/cuda_graph.hpp"

namespace stoker::train {
namespace {

std::string words(int error) {
  return fmt::format("CUDA error {} ({})", error,
                     ::cudaGetErrorString(static_cast<cudaError_t>(error)));
}

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

char* moved(void* memory, std::ptrdiff_t bytes) {
  // Of an allocation whose beginning does not exist: an address, never read.
  return reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(memory) +
                                 static_cast<std::uintptr_t>(bytes));
}

class Cuda final : public CudaDevice {
 public:
  Cuda(int ordinal, std::string bus) : ordinal_(ordinal), bus_(std::move(bus)) {}
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;
  ~Cuda() override {
    ::cudaFree(bounds_);
    ::cudaFree(scratch_);
    if (fence_ != nullptr) ::cudaEventDestroy(fence_);
    if (computed_ != nullptr) ::cudaEventDestroy(computed_);
    for (const cudaStream_t stream : streams_) ::cudaStreamDestroy(stream);
    for (const cudaStream_t own : {copies_, recorded_})
      if (own != nullptr) ::cudaStreamDestroy(own);
  }

  Status open() {
    const auto first = [&](cudaError_t error) { return error == cudaSuccess; };
    cudaError_t error = ::cudaSetDevice(ordinal_);
    if (first(error)) error = ::cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking);
    if (first(error)) error = ::cudaEventCreateWithFlags(&fence_, cudaEventDisableTiming);
    if (first(error)) error = ::cudaEventCreateWithFlags(&computed_, cudaEventDisableTiming);
    if (first(error)) error = ::cudaMalloc(&scratch_, sizeof(Scratch));
    if (first(error)) return ok();
    if (error == cudaErrorDevicesUnavailable)
      return fail("the GPU is busy or in exclusive mode: another process holds it", where(),
                  "end that process (nvidia-smi shows it), or set the compute mode to default");
    return fail(words(error), where(), "nvidia-smi shows the GPU's state");
  }

  [[nodiscard]] const char* name() const override { return "cuda"; }
  [[nodiscard]] bool is_host() const override { return false; }
  [[nodiscard]] void* stream() const override { return compute_; }
  [[nodiscard]] void* new_stream() override {
    cudaStream_t stream = nullptr;
    if (!note(::cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream"))
      return nullptr;
    return streams_.emplace_back(stream);
  }
  void order(void* first, void* later) override {
    if (broken()) return;
    note(::cudaEventRecord(computed_, static_cast<cudaStream_t>(first)), "event") &&
        note(::cudaStreamWaitEvent(static_cast<cudaStream_t>(later), computed_, 0), "event");
  }
  [[nodiscard]] int query(void* stream) const override {
    return ::cudaStreamQuery(static_cast<cudaStream_t>(stream));
  }

  [[nodiscard]] Status status() const override {
    const std::lock_guard lock(mutex_);
    return failed_ ? Status(fail(*failed_)) : ok();
  }

  [[nodiscard]] bool holds(const void* memory) const override {
    cudaPointerAttributes about{};
    if (::cudaPointerGetAttributes(&about, memory) == cudaSuccess)
      return about.type == cudaMemoryTypeDevice;
    (void)::cudaGetLastError();
    return false;
  }

  [[nodiscard]] std::size_t room() const override {
    std::size_t free = 0, total = 0;
    note(::cudaMemGetInfo(&free, &total), "asking for free memory");
    return free;
  }

  Result<void*> allocate(std::size_t, UsedBytes used) override {
    const std::size_t bytes = std::max<std::size_t>(1, used.end - used.begin);
    void* memory = nullptr;
    const cudaError_t error = ::cudaMalloc(&memory, bytes);
    if (error == cudaErrorMemoryAllocation) {
      (void)::cudaGetLastError();
      return fail(fmt::format("{}: {} bytes asked, {} free", kOutOfDeviceMemory, bytes, room()),
                  where(), "use more ranks, recomputation or a smaller micro-batch");
    }
    if (error != cudaSuccess) return fail(words(error), where());
    clear(memory, bytes);
    return static_cast<void*>(moved(memory, -static_cast<std::ptrdiff_t>(used.begin)));
  }
  void release(void* memory, std::size_t, UsedBytes used) override {
    ::cudaFree(moved(memory, static_cast<std::ptrdiff_t>(used.begin)));
  }
  void keep_only(void*, std::size_t, UsedBytes) override {}  // the rest was never there

  void upload(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) const override {
    if (broken() ||
        !note(::cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, compute_), "copy") ||
        !note(::cudaStreamSynchronize(compute_), "waiting for a copy"))
      std::memset(to, 0, bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    if (broken() || bytes == 0) return;
    guard(to, bytes);
    // The CPU's memory may change as soon as we return.
    if (note(::cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, compute_), "copy") &&
        !holds(from))
      note(::cudaStreamSynchronize(compute_), "waiting for a copy");
  }

  void download_beside(void* to, const void* from, std::size_t bytes) override {
    if (broken() || bytes == 0) return;
    order(compute_, copies_);
    const bool queued =
        note(::cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, copies_), "copy") &&
        note(::cudaEventRecord(fence_, copies_), "event");
    if (queued) copied_.push_back({static_cast<const char*>(from), bytes});
  }
  Status finish_copies() override {
    note(::cudaStreamSynchronize(copies_), "waiting for copies");
    return status();
  }

  void pin(void* memory, std::size_t bytes) override {
    if (::cudaHostRegister(memory, bytes, cudaHostRegisterDefault) != cudaSuccess)
      (void)::cudaGetLastError();
  }
  void unpin(void* memory) override {
    if (::cudaHostUnregister(memory) != cudaSuccess) (void)::cudaGetLastError();
  }

  void clear(void* memory, std::size_t bytes) override {
    if (broken() || bytes == 0) return;
    guard(memory, bytes);
    note(::cudaMemsetAsync(memory, 0, bytes, compute_), "clearing memory");
  }
  void adamw(const kernels::AdamwStep& step, const kernels::AdamwRange<float>& range,
             const std::vector<std::uint64_t>& exempt) override {
    if (broken()) return;
    for (const float* written : {range.master, range.moment1, range.moment2})
      guard(written, range.count * sizeof(float));
    if (exempt != exempt_) {
      const std::size_t bytes = exempt.size() * sizeof exempt[0];
      ::cudaFree(bounds_);
      bounds_ = nullptr;
      exempt_.clear();
      if (!note(::cudaMalloc(&bounds_, bytes), "memory for AdamW")) return;
      copy(bounds_, exempt.data(), bytes);
      exempt_ = exempt;
    }
    note(kernels::adamw(step, range, {static_cast<std::uint64_t*>(bounds_), exempt.size()}, {},
                        compute_),
         "AdamW");
  }
  void adamw(const kernels::AdamwStep&, const kernels::AdamwRange<double>&,
             const std::vector<std::uint64_t>&) override {
    refuse_f64();
  }
  void round(const float* from, kernels::Bf16* to, std::size_t count) override {
    if (broken()) return;
    guard(to, count * sizeof *to);
    note(kernels::round_to_bf16(from, to, count, compute_), "rounding parameters");
  }
  [[nodiscard]] double sum_of_squares(const Buffer& values) const override {
    double total = 0;
    if (values.element == Element::F64) return refuse_f64(), total;
    if (broken() || !note(::cudaMemsetAsync(scratch_, 0, sizeof(Scratch), compute_), "norm"))
      return total;
    auto* s = static_cast<Scratch*>(scratch_);
    note(kernels::add_sum_of_squares(static_cast<const float*>(values.data), values.count,
                                     s->partials, &s->total, compute_),
         "norm");
    download(&total, &s->total, sizeof total);
    return total;
  }
  void add_digest(kernels::StateDigest& sum, std::string_view name, std::uint64_t first,
                  const Buffer& values) const override {
    if (values.element == Element::F64) return refuse_f64();
    if (broken() || !note(::cudaMemsetAsync(scratch_, 0, sizeof(Scratch), compute_), "digest"))
      return;
    auto* s = static_cast<Scratch*>(scratch_);
    note(kernels::add_digest(name, first, static_cast<const float*>(values.data), values.count,
                             &s->sums, compute_),
         "digest");
    kernels::DigestSums sums;
    download(&sums, &s->sums, sizeof sums);
    sum.merge({sums.low, sums.high});
  }
  void dropout_masks(const kernels::DropoutKey& key, double p, std::uint64_t first,
                     std::size_t count, const kernels::DropoutSamples& samples,
                     float* out) override {
    if (!broken())
      note(kernels::dropout_masks(key, p, first, count, samples, out, compute_), "dropout");
  }
  void dropout_masks(const kernels::DropoutKey& key, double p, std::uint64_t first,
                     std::size_t count, const kernels::DropoutSamples& samples,
                     kernels::Bf16* out) override {
    if (!broken())
      note(kernels::dropout_masks(key, p, first, count, samples, out, compute_), "dropout");
  }
  void reduce_into(const Buffer& total, const void* next, Reduce how) override {
    if (broken()) return;
    guard(total.data, total.bytes());
    const auto typed = [&]<class T>(T* to) {
      const auto* from = static_cast<const T*>(next);
      return how == Reduce::Sum ? kernels::add_into(to, from, total.count, compute_)
                                : kernels::max_into(to, from, total.count, compute_);
    };
    note(total.element == Element::F64 ? typed(static_cast<double*>(total.data))
                                       : typed(static_cast<float*>(total.data)),
         "adding up");
  }

  [[nodiscard]] bool records() const override {
    const auto wanted = variable("STOKER_CUDA_GRAPHS");
    return !wanted || *wanted != "off";
  }
  std::unique_ptr<Recorded> record(const std::function<void(void* stream)>& queue) override {
    if (broken() || !records()) return nullptr;
    if (recorded_ == nullptr &&
        !note(::cudaStreamCreateWithFlags(&recorded_, cudaStreamNonBlocking), "making a stream"))
      return nullptr;
    struct Back {  // also where `queue` throws
      cudaStream_t& compute;
      ~Back() { compute = nullptr; }
    } back{compute_ = recorded_};
    return record_graph(
        recorded_, [&] { queue(recorded_); },
        [this](int error) { note(error, "launching what was recorded"); });
  }

 private:
  struct Scratch {  // on the device
    double partials[kernels::kNormPartials];
    double total;
    kernels::DigestSums sums;
  };

  [[nodiscard]] std::string where() const { return fmt::format("GPU {} ({})", ordinal_, bus_); }
  [[nodiscard]] bool broken() const {
    const std::lock_guard lock(mutex_);
    return failed_ != nullptr;
  }
  // True: no error. The first error stays.
  bool note(int error, const char* doing) const {
    if (error == cudaSuccess) return true;
    const std::lock_guard lock(mutex_);
    if (failed_ == nullptr)
      failed_ = std::make_unique<Error>(
          Error{fmt::format("{} failed: {}", doing, words(error)), where(),
                error == cudaErrorECCUncorrectable ? "the GPU's memory is damaged: exclude the node"
                                                   : "nvidia-smi and the kernel's log say more"});
    return false;
  }
  void refuse_f64() const {
    note(cudaErrorInvalidValue, "an f64 operation, which the GPU has not");
  }
  struct Bytes {
    const char* begin;
    std::size_t count;
  };
  // Before memory is written: copies beside may still read it. What they do not read goes on.
  void guard(const void* memory, std::size_t bytes) {
    const auto* begin = static_cast<const char*>(memory);
    const auto meets = [&](const Bytes& b) {
      return begin < b.begin + b.count && b.begin < begin + bytes;
    };
    if (std::none_of(copied_.begin(), copied_.end(), meets)) return;
    note(::cudaStreamWaitEvent(compute_, fence_, 0), "event");
    copied_.clear();
  }

  int ordinal_;
  std::string bus_;
  cudaStream_t copies_ = nullptr, recorded_ = nullptr;
  cudaStream_t compute_ = nullptr;  // the default stream; while something is recorded, that one
  std::vector<cudaStream_t> streams_;
  cudaEvent_t fence_ = nullptr, computed_ = nullptr;
  void* scratch_ = nullptr;
  void* bounds_ = nullptr;             // of AdamW, on the device
  std::vector<std::uint64_t> exempt_;  // what is in them
  std::vector<Bytes> copied_;          // what copies beside read, up to the fence
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Error> failed_;
};

std::string bus_of(int ordinal) {
  char text[64] = "";
  if (::cudaDeviceGetPCIBusId(text, sizeof text, ordinal) != cudaSuccess) return "unknown";
  return text;
}

}  // namespace

GpuFacts gpu_facts() {
  GpuFacts facts;
  facts.runtime = CUDART_VERSION;
  facts.visible = variable("CUDA_VISIBLE_DEVICES");
  if (::cudaDriverGetVersion(&facts.driver) != cudaSuccess) facts.driver = 0;
  int count = 0;
  const cudaError_t error = ::cudaGetDeviceCount(&count);
  if (error != cudaSuccess && error != cudaErrorNoDevice && error != cudaErrorInsufficientDriver)
    facts.why = words(error);
  (void)::cudaGetLastError();
  for (int i = 0; i < count; ++i) {
    GpuFacts::Card card;
    card.bus = bus_of(i);
    ::cudaDeviceGetAttribute(&card.major, cudaDevAttrComputeCapabilityMajor, i);
    ::cudaDeviceGetAttribute(&card.minor, cudaDevAttrComputeCapabilityMinor, i);
    ::cudaDeviceGetAttribute(&card.compute_mode, cudaDevAttrComputeMode, i);
    facts.cards.push_back(card);
  }
  return facts;
}

Result<std::unique_ptr<CudaDevice>> open_cuda(int ordinal) {
  auto device = std::make_unique<Cuda>(ordinal, bus_of(ordinal));
  STOKER_TRY_STATUS(device->open());
  return std::unique_ptr<CudaDevice>(std::move(device));
}

}  // namespace stoker::train
