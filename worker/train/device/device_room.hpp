// DeviceRoom: memory of a device for what passes through, which grows with what is asked of it.
#pragma once

#include "worker/train/device/device.hpp"

namespace stoker::train {

class DeviceRoom {
 public:
  explicit DeviceRoom(Device& device) : device_(device) {}
  DeviceRoom(const DeviceRoom&) = delete;
  DeviceRoom& operator=(const DeviceRoom&) = delete;
  ~DeviceRoom() { give_back(); }
  // At least `bytes`; what was in it may be gone. Errors: not enough memory.
  Result<char*> get(std::size_t bytes) {
    if (bytes > bytes_) {
      give_back();
      STOKER_TRY(memory, device_.allocate(bytes, {0, bytes}));
      memory_ = memory, bytes_ = bytes;
    }
    return static_cast<char*>(memory_);
  }

 private:
  void give_back() {
    if (memory_ != nullptr) device_.release(memory_, bytes_, {0, bytes_});
    memory_ = nullptr, bytes_ = 0;
  }
  Device& device_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace stoker::train
