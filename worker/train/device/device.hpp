// Device: the memory that a training's numbers live in, and what is computed on them outside of the
// model. Flat state, checks and saving know nothing else of it. Calls are queued in their order and
// may be done later; what a reader gets is always complete. A call that fails is remembered: from
// then on nothing is done, readers get zeros, and status() says what failed and on which device.
// So one look a step is enough. One thread a device, except finish_copies().
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "common/result.hpp"
#include "kernels/adamw.hpp"
#include "kernels/dropout.hpp"
#include "kernels/state_digest.hpp"
#include "worker/train/comm/comm.hpp"

namespace stoker::train {

// Bytes [begin, end) of an allocation; what is outside of them is never used.
struct UsedBytes {
  std::size_t begin = 0, end = 0;
};

class Recorded {
 public:
  virtual ~Recorded() = default;
  virtual void replay() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual const char* name() const = 0;  // "cpu", "cuda"
  // The CPU reads and writes this memory by itself.
  [[nodiscard]] virtual bool is_host() const = 0;
  [[nodiscard]] virtual Status status() const = 0;

  // Zeros. Errors: not enough memory (is_out_of_memory).
  virtual Result<void*> allocate(std::size_t bytes, UsedBytes used) = 0;
  virtual void release(void* memory, std::size_t bytes, UsedBytes used) = 0;
  // From now on only this part is used.
  virtual void keep_only(void* memory, std::size_t bytes, UsedBytes used) = 0;

  // Between this memory and that of the CPU.
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) const = 0;
  // The same beside what is computed: `to` is complete after finish_copies(), which any one thread
  // may call. Later calls that write to this memory wait for it by themselves.
  virtual void download_beside(void* to, const void* from, std::size_t bytes) = 0;
  virtual Status finish_copies() = 0;
  // The CPU's memory that download_beside() will write to again and again: pinned, such a copy does
  // not hold the caller. Where that fails copies are slower. Unpin it before it is released.
  virtual void pin(void* memory, std::size_t bytes) = 0;
  virtual void unpin(void* memory) = 0;

  virtual void clear(void* memory, std::size_t bytes) = 0;
  // `exempt`: pairs of begin and end, ascending, of the range's elements that do not decay.
  virtual void adamw(const kernels::AdamwStep& step, const kernels::AdamwRange<float>& range,
                     const std::vector<std::uint64_t>& exempt) = 0;
  virtual void adamw(const kernels::AdamwStep& step, const kernels::AdamwRange<double>& range,
                     const std::vector<std::uint64_t>& exempt) = 0;
  virtual void round(const float* from, kernels::Bf16* to, std::size_t count) = 0;
  [[nodiscard]] virtual double sum_of_squares(const Buffer& values) const = 0;
  virtual void add_digest(kernels::StateDigest& sum, std::string_view name, std::uint64_t first,
                          const Buffer& values) const = 0;
  // The masks of samples whose numbers are in this memory, one after the other.
  virtual void dropout_masks(const kernels::DropoutKey& key, double p, std::uint64_t first,
                             std::size_t count, const kernels::DropoutSamples& samples,
                             float* out) = 0;
  virtual void dropout_masks(const kernels::DropoutKey& key, double p, std::uint64_t first,
                             std::size_t count, const kernels::DropoutSamples& samples,
                             kernels::Bf16* out) = 0;
  // total[i] = total[i] + next[i], or the larger one.
  virtual void reduce_into(const Buffer& total, const void* next, Reduce how) = 0;

  // Whether record() keeps anything.
  [[nodiscard]] virtual bool records() const { return false; }
  // Keeps what `queue` queues on the stream that it gets, and does none of it: replay() queues all
  // of it again, in one call. So addresses stay the same, and nothing in it may wait. Null: it
  // could not be kept. What `queue` throws is thrown on.
  virtual std::unique_ptr<Recorded> record(const std::function<void(void* stream)>& queue);
};

Device& cpu_device();

constexpr const char* kOutOfDeviceMemory = "out of device memory";
bool is_out_of_memory(const Error& error);

// What the CPU reads of a device's memory: the memory itself, or a copy of it.
class HostView {
 public:
  HostView(const Device& device, const void* memory, std::size_t bytes) : data_(memory) {
    if (device.is_host()) return;
    copy_.resize(bytes);
    device.download(copy_.data(), memory, bytes);
    data_ = copy_.data();
  }
  [[nodiscard]] const void* data() const { return data_; }

 private:
  const void* data_;
  std::vector<char> copy_;
};

}  // namespace stoker::train
