// What the node bench computes on a GPU for a minute: products whose sums are small integers, so
// that there is one right result on every card, in every order and precision. burn_bf16.ptx and
// burn_f32.ptx are the kernels; here are their input and the right answer.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace stoker::agent {

struct Burn {
  std::string_view figure;              // "gpu_gemm_bf16"
  std::string_view ptx;                 // for cuModuleLoadData; ends with a zero
  std::vector<std::uint32_t> in;        // words a lane, lane after lane
  std::array<std::uint32_t, 32> right;  // what a launch adds to the word of a thread, by its lane
  double operations = 0;                // of a thread in a launch
};

inline constexpr std::uint32_t kBurnRounds = 8192;  // of a launch

// Tensor cores multiply bf16 from 8.0 on; older cards multiply f32.
Burn make_burn(int compute_major);

}  // namespace stoker::agent
