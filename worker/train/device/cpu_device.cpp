// The CPU as a device: plain memory and the loops of kernels/*.cpp, done when the call returns.
#include <fmt/format.h>
#include <sys/mman.h>

#include "kernels/global_norm.hpp"
#include "worker/train/device/device.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kPage = 4096;

// By turns with and without decay, up to each bound and then to the end.
template <class T>
void adamw_parts(kernels::AdamwStep step, const kernels::AdamwRange<T>& r,
                 const std::vector<std::uint64_t>& exempt) {
  const double decay = step.weight_decay;
  std::size_t at = 0;
  for (std::size_t i = 0; i <= exempt.size(); ++i) {
    const std::size_t end = i < exempt.size() ? exempt[i] : r.count;
    step.weight_decay = i % 2 == 0 ? decay : 0;
    kernels::adamw(step, kernels::AdamwRange<T>{
                             r.gradient + at, r.master + at, r.moment1 + at, r.moment2 + at,
                             r.parameter != nullptr ? r.parameter + at : nullptr, end - at});
    at = end;
  }
}

class CpuDevice final : public Device {
 public:
  [[nodiscard]] const char* name() const override { return "cpu"; }
  [[nodiscard]] bool is_host() const override { return true; }
  [[nodiscard]] Status status() const override { return ok(); }

  Result<void*> allocate(std::size_t bytes, UsedBytes used) override {
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      return fail(errno_error(errno,
                              fmt::format("cannot get {} bytes for the training state", bytes),
                              "memory", "use a smaller model or more ranks"));
    // No large page reaches over the ends of what is used.
    ::madvise(memory, bytes, MADV_NOHUGEPAGE);
    const std::size_t begin = used.begin / kPage * kPage;
    ::madvise(static_cast<char*>(memory) + begin, used.end - begin, MADV_HUGEPAGE);
    return memory;
  }
  void release(void* memory, std::size_t bytes, UsedBytes) override { ::munmap(memory, bytes); }
  // Gives back the pages outside.
  void keep_only(void* memory, std::size_t bytes, UsedBytes used) override {
    const std::size_t begin = used.begin / kPage * kPage;
    const std::size_t end = (used.end + kPage - 1) / kPage * kPage;
    if (begin > 0) ::madvise(memory, begin, MADV_DONTNEED);
    if (end < bytes) ::madvise(static_cast<char*>(memory) + end, bytes - end, MADV_DONTNEED);
  }

  void upload(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  void download_beside(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  Status finish_copies() override { return ok(); }
  void pin(void*, std::size_t) override {}
  void unpin(void*) override {}

  void clear(void* memory, std::size_t bytes) override { std::memset(memory, 0, bytes); }
  void adamw(const kernels::AdamwStep& step, const kernels::AdamwRange<float>& range,
             const std::vector<std::uint64_t>& exempt) override {
    adamw_parts(step, range, exempt);
  }
  void adamw(const kernels::AdamwStep& step, const kernels::AdamwRange<double>& range,
             const std::vector<std::uint64_t>& exempt) override {
    adamw_parts(step, range, exempt);
  }
  void round(const float* from, kernels::Bf16* to, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) to[i] = kernels::to_bf16(from[i]);
  }
  [[nodiscard]] double sum_of_squares(const Buffer& values) const override {
    if (values.element == Element::F64)
      return kernels::sum_of_squares(static_cast<const double*>(values.data), values.count);
    return kernels::sum_of_squares(static_cast<const float*>(values.data), values.count);
  }
  void add_digest(kernels::StateDigest& sum, std::string_view name, std::uint64_t first,
                  const Buffer& values) const override {
    if (values.element == Element::F64)
      sum.add(name, first, static_cast<const double*>(values.data), values.count);
    else
      sum.add(name, first, static_cast<const float*>(values.data), values.count);
  }
  void dropout_masks(const kernels::DropoutKey& key, double p, std::uint64_t first,
                     std::size_t count, const kernels::DropoutSamples& samples,
                     float* out) override {
    masks(key, p, first, count, samples, out);
  }
  void dropout_masks(const kernels::DropoutKey& key, double p, std::uint64_t first,
                     std::size_t count, const kernels::DropoutSamples& samples,
                     kernels::Bf16* out) override {
    masks(key, p, first, count, samples, out);
  }
  void reduce_into(const Buffer& total, const void* next, Reduce how) override {
    train::reduce_into(total, next, how);
  }

 private:
  template <class T>
  static void masks(kernels::DropoutKey key, double p, std::uint64_t first, std::size_t count,
                    const kernels::DropoutSamples& samples, T* out) {
    for (std::size_t i = 0; i < samples.count; ++i) {
      key.sample = samples.ids[i];
      kernels::dropout_mask(key, p, first, count, out + i * count);
    }
  }
};

}  // namespace

Device& cpu_device() {
  static CpuDevice device;
  return device;
}

std::unique_ptr<Recorded> Device::record(const std::function<void(void* stream)>&) {
  return nullptr;
}

bool is_out_of_memory(const Error& error) {
  return error.what.find(kOutOfDeviceMemory) != std::string::npos;
}

}  // namespace stoker::train
