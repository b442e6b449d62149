// What a stream was asked to do, kept as a CUDA graph: thousands of small launches become one.
#pragma once

#include <functional>
#include <memory>

#include "worker/train/device/device.hpp"

namespace stoker::train {

// Keeps what `queue` queues on the stream (cudaStream_t, not the default one), and does none of it.
// The graph runs on the default stream; `failed` gets CUDA's number of an error of a launch. Null:
// CUDA could not keep it, say because something waited.
std::unique_ptr<Recorded> record_graph(void* stream, const std::function<void()>& queue,
                                       std::function<void(int error)> failed);

}  // namespace stoker::train
