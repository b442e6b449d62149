// What a build with STOKER_CUDA adds to the backend: the rank's GPU, LibTorch's part for it, and
// NCCL between the GPUs. All of it is opened when a training asks for it, so that the program
// starts on every node and says what is missing.
#pragma once

#include <map>

#include "worker/train/device/cuda_device.hpp"
#include "worker/train/run/rank_environment.hpp"
#include "worker/train/torch/gloo_comm.hpp"

namespace stoker::train {

// `nodes_fault`: another node may do.
Result<std::unique_ptr<Device>> open_gpu(const RankEnvironment& environment, bool& nodes_fault);
// The ranks meet over Gloo, which stays for the store; what they compute travels by NCCL.
Result<std::unique_ptr<Comm>> connect_gpus(const GlooOptions& options, Device& device);
// What "exact" depends on beside torch_numerics().
std::map<std::string, std::string> gpu_numerics();

}  // namespace stoker::train
