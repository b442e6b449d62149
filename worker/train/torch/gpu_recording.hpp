// Recordings of what LibTorch queues on a GPU. LibTorch's memory is a cache that hands the same
// bytes out again: what a recording uses comes from a pool of its own, and stays there.
#pragma once

#include <functional>
#include <memory>

#include "kernels/stream.hpp"
#include "worker/train/device/device.hpp"

namespace stoker::train {

// The stream that LibTorch queues on: the default one, or the one that is recorded.
kernels::Stream stream_now();
// Operators::record for a GPU.
std::unique_ptr<Recorded> record_torch(Device& device, const std::function<void()>& queue);

}  // namespace stoker::train
