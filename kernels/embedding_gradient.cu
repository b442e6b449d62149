// The embedding's gradient on the GPU: one block for each token that occurs, a thread a column. No
// atomic addition, so the sum of a row has one order.
#include "kernels/embedding_gradient.hpp"
#include "kernels/grid.hpp"

namespace stoker::kernels {
namespace {

template <class T>
__global__ void embedding_kernel(const std::int64_t* tokens, const std::uint32_t* order,
                                 Index count, Index width, const T* upstream, float* gradient) {
  for (Index begin = first_row(); begin < count; begin += all_rows()) {
    const std::int64_t token = tokens[order[begin]];
    if (begin > 0 && tokens[order[begin - 1]] == token) continue;  // another block's
    float* row = gradient + row_start(token, width);
    for (Index column = threadIdx.x; column < width; column += blockDim.x) {
      float sum = row[column];
      for (Index i = begin; i < count && tokens[order[i]] == token; ++i)
        sum += widen(upstream[row_start(order[i], width) + column]);
      row[column] = sum;
    }
  }
}

template <class T>
GpuError scatter(const std::int64_t* tokens, const std::uint32_t* order, std::size_t count,
                 std::size_t width, const T* upstream, float* gradient, Stream stream) {
  if (count == 0 || width == 0) return 0;
  return launch(Grid{blocks_for(static_cast<Index>(count), 1)}, stream, embedding_kernel<T>, tokens,
                order, static_cast<Index>(count), static_cast<Index>(width), upstream, gradient);
}

}  // namespace

GpuError embedding_gradient(const std::int64_t* tokens, const std::uint32_t* order,
                            std::size_t count, std::size_t width, const float* upstream,
                            float* gradient, Stream stream) {
  return scatter(tokens, order, count, width, upstream, gradient, stream);
}
GpuError embedding_gradient(const std::int64_t* tokens, const std::uint32_t* order,
                            std::size_t count, std::size_t width, const Bf16* upstream,
                            float* gradient, Stream stream) {
  return scatter(tokens, order, count, width, upstream, gradient, stream);
}

}  // namespace stoker::kernels
