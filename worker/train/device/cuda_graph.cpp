#include "worker/train/device/cuda_graph.hpp"

#include <cuda_runtime.h>
#include <utility>

namespace stoker::train {
namespace {

class CudaGraph final : public Recorded {
 public:
  CudaGraph(cudaGraphExec_t graph, std::function<void(int)> failed)
      : graph_(graph), failed_(std::move(failed)) {}
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override { ::cudaGraphExecDestroy(graph_); }
  void replay() override {
    if (const cudaError_t error = ::cudaGraphLaunch(graph_, nullptr); error != cudaSuccess)
      failed_(error);
  }

 private:
  cudaGraphExec_t graph_;
  std::function<void(int)> failed_;
};

// A recording must be ended also where it failed; its errors are not those of a later call.
cudaGraph_t end_recording(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  if (::cudaStreamEndCapture(stream, &graph) != cudaSuccess) {
    (void)::cudaGetLastError();
    return nullptr;
  }
  return graph;
}

}  // namespace

std::unique_ptr<Recorded> record_graph(void* on, const std::function<void()>& queue,
                                       std::function<void(int error)> failed) {
  const auto stream = static_cast<cudaStream_t>(on);
  // Other threads go on: one of them may wait for the copies of a save.
  if (::cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) {
    (void)::cudaGetLastError();
    return nullptr;
  }
  try {
    queue();
  } catch (...) {
    if (cudaGraph_t graph = end_recording(stream)) ::cudaGraphDestroy(graph);
    throw;
  }
  cudaGraph_t graph = end_recording(stream);
  if (graph == nullptr) return nullptr;
  cudaGraphExec_t ready = nullptr;
  const cudaError_t error = ::cudaGraphInstantiate(&ready, graph, 0);
  ::cudaGraphDestroy(graph);
  if (error == cudaSuccess) return std::make_unique<CudaGraph>(ready, std::move(failed));
  (void)::cudaGetLastError();
  return nullptr;
}

}  // namespace stoker::train
