// Gradient of an embedding lookup: gradient[token[i]] += upstream[i], row by row in the order of
// the tokens, so that the sum is the same bits in every run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bf16.hpp"

namespace stoker::kernels {

// tokens[count]; upstream[count][width]; gradient[rows][width], every token below rows.
void embedding_gradient(const std::int64_t* tokens, std::size_t count, std::size_t width,
                        const float* upstream, float* gradient);
void embedding_gradient(const std::int64_t* tokens, std::size_t count, std::size_t width,
                        const double* upstream, double* gradient);
void embedding_gradient(const std::int64_t* tokens, std::size_t count, std::size_t width,
                        const Bf16* upstream, float* gradient);

}  // namespace stoker::kernels
