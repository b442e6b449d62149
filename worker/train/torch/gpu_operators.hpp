// GpuOperators: bf16 on a GPU, on tensor cores and the kernels of kernels/*.cu. What is not bf16,
// and attention with dropout of heads that kernels::in_tiles() refuses, is computed as by
// Operators. Compiled where CUDA is (STOKER_CUDA).
#pragma once

namespace stoker::train {

class Operators;
const Operators& gpu_operators();

}  // namespace stoker::train
