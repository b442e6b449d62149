// Gradient of an embedding lookup: gradient[token[i]] += upstream[i], row by row in the order of
// the tokens, so that the sum is the same bits in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/bf16.hpp"
#include "kernels/stream.hpp"

namespace stoker::kernels {

// tokens[count]; upstream[count][width]; gradient[rows][width], every token below rows.
void embedding_gradient(const std::int64_t* tokens, std::size_t count, std::size_t width,
                        const float* upstream, float* gradient);
void embedding_gradient(const std::int64_t* tokens, std::size_t count, std::size_t width,
                        const double* upstream, double* gradient);
void embedding_gradient(const std::int64_t* tokens, std::size_t count, std::size_t width,
                        const Bf16* upstream, float* gradient);

// The places 0 ... count - 1 sorted by their token, those of one token in their own order. Made on
// the CPU where the tokens are, beside the step before.
std::vector<std::uint32_t> embedding_order(const std::int64_t* tokens, std::size_t count);

// On the GPU, bitwise as above: each row that occurs is added to by one block, in the order of the
// tokens. `order` is embedding_order of `tokens`; all pointers are of the device.
GpuError embedding_gradient(const std::int64_t* tokens, const std::uint32_t* order,
                            std::size_t count, std::size_t width, const float* upstream,
                            float* gradient, Stream stream);
GpuError embedding_gradient(const std::int64_t* tokens, const std::uint32_t* order,
                            std::size_t count, std::size_t width, const Bf16* upstream,
                            float* gradient, Stream stream);

}  // namespace stoker::kernels
