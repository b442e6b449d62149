// Initial weights keyed by (seed, parameter name, logical element): every split of the model over
// ranks starts from the same weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stoker::kernels {

// out[i] = a draw of N(0, standard_deviation) for logical element `first + i` of the parameter
// `name`. Box-Muller in double on two 32-bit halves of 64 Philox bits; depends on libm's log, cos
// and sin.
void normal_init(std::uint64_t seed, std::string_view name, double standard_deviation,
                 std::uint64_t first, std::size_t count, float* out);
void normal_init(std::uint64_t seed, std::string_view name, double standard_deviation,
                 std::uint64_t first, std::size_t count, double* out);

}  // namespace stoker::kernels
