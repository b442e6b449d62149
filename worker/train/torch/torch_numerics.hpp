// How LibTorch computes in this process: its threads, its BLAS, and what of it the bits depend on.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace stoker::train {

// Sets the number of threads of LibTorch and of the BLAS below it, and runs each kind of operator
// once, so that the first iteration does not pay for it.
void warm_up_torch(std::uint32_t threads);
// What "exact" depends on: library, BLAS, CPU capability.
std::map<std::string, std::string> torch_numerics();

}  // namespace stoker::train
