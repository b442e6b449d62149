#include "worker/train/torch/gpu_recording.hpp"

#include <atomic>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <string>
#include <utility>

#include "worker/train/run/say.hpp"

namespace stoker::train {
namespace {

// LibTorch's part for the GPU is opened while the program runs, so all of this goes by way of
// virtual functions.
const c10::impl::DeviceGuardImplInterface& guard() {
  return *c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
}
c10::cuda::CUDACachingAllocator::CUDAAllocator& allocator() {
  return static_cast<c10::cuda::CUDACachingAllocator::CUDAAllocator&>(
      *c10::getDeviceAllocator(c10::DeviceType::CUDA));
}

// Memory for one recording; tensors that live longer keep theirs.
class Pool {
 public:
  Pool() : device_(guard().getDevice().index()), id_{0, next()} {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    if (begun_) allocator().releasePool(device_, id_);
  }
  Pool& begin(cudaStream_t stream) {
    allocator().beginAllocateToPool(device_, id_, [stream](cudaStream_t s) { return s == stream; });
    begun_ = true;
    return *this;
  }
  void end() { allocator().endAllocateToPool(device_, id_); }

 private:
  static c10::CaptureId_t next() {
    constexpr c10::CaptureId_t kOurs = c10::CaptureId_t{1} << 40;  // LibTorch counts from 1
    static std::atomic<c10::CaptureId_t> count = kOurs;
    return count++;
  }
  c10::DeviceIndex device_;
  c10::MempoolId_t id_;
  bool begun_ = false;
};

// While it lives this thread's LibTorch queues on the stream and allocates from the pool.
class Onto {
 public:
  Onto(void* stream, Pool& pool)
      : pool_(pool.begin(static_cast<cudaStream_t>(stream))),
        before_(guard().exchangeStream(c10::Stream(c10::Stream::UNSAFE, guard().getDevice(),
                                                   reinterpret_cast<c10::StreamId>(stream)))) {}
  Onto(const Onto&) = delete;
  Onto& operator=(const Onto&) = delete;
  ~Onto() {
    pool_.end();
    guard().exchangeStream(before_);
  }

 private:
  Pool& pool_;
  c10::Stream before_;
};

class TorchRecording final : public Recorded {
 public:
  TorchRecording(std::unique_ptr<Pool> pool, std::unique_ptr<Recorded> recorded)
      : pool_(std::move(pool)), recorded_(std::move(recorded)) {}
  void replay() override { recorded_->replay(); }

 private:
  std::unique_ptr<Pool> pool_;  // outlives what uses it
  std::unique_ptr<Recorded> recorded_;
};

}  // namespace

kernels::Stream stream_now() {
  const auto stream = guard().getStream(guard().getDevice());
  return static_cast<kernels::Stream>(guard().getStreamNativeHandle(stream));
}

std::unique_ptr<Recorded> record_torch(Device& device, const std::function<void()>& queue) {
  allocator().emptyCache();  // the pool needs what the passes before had
  auto pool = std::make_unique<Pool>();
  auto recorded = device.record([&](void* stream) {
    const Onto onto(stream, *pool);
    try {
      queue();
    } catch (const c10::Error& error) {
      const std::string text = error.what();
      complain("a CUDA graph could not be recorded: " + text.substr(0, text.find('\n')));
      throw;
    }
  });
  if (recorded == nullptr) return nullptr;
  return std::make_unique<TorchRecording>(std::move(pool), std::move(recorded));
}

}  // namespace stoker::train
