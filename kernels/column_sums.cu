#include "kernels/column_sums.hpp"
#include "kernels/columns.hpp"

namespace stoker::kernels {
namespace {

template <class T>
__global__ void sums_kernel(const T* values, Index rows, Index width, float* workspace) {
  sum_group([&](Index row, Index c) { return widen(values[row_start(row, width) + c]); }, rows,
            width, workspace);
}

constexpr unsigned kAhead = 4;  // rows that a lane has asked for before it adds

template <class T>
__global__ void sums_packs(const T* values, Index rows, Index width, float* workspace) {
  constexpr unsigned kCount = Pack<T>::kCount;
  STOKER_SHARED(float, shared, kWarp* kCount);
  const Stripe<T> stripe(rows, width);
  float sums[1][kCount] = {};
  each_pack<1>(stripe.packs, [&](unsigned, Index pack) {
    for (Index row = stripe.rows.begin; row < stripe.rows.end; row += kAhead * kBlockWarps) {
      Pack<T> ahead[kAhead] = {};
      for (unsigned i = 0; i < kAhead; ++i)
        if (row + i * kBlockWarps < stripe.rows.end)
          ahead[i] = load(values + stripe.at(row + i * kBlockWarps, pack));
      for (unsigned i = 0; i < kAhead; ++i)
        for (unsigned j = 0; j < kCount; ++j) sums[0][j] += widen(ahead[i].values[j]);
    }
  });
  put_stripe(stripe, sums, shared, workspace);
}

template <class T>
GpuError run(const T* values, std::size_t row_count, std::size_t row_width, float* workspace,
             float* sums, Stream stream) {
  const auto rows = static_cast<Index>(row_count), width = static_cast<Index>(row_width);
  if (rows * width == 0) return 0;
  const GpuError e =
      in_packs(row_width, values)
          ? launch(stripes<T>(rows, width), stream, sums_packs<T>, values, rows, width, workspace)
          : launch(group_grid(rows, width), stream, sums_kernel<T>, values, rows, width, workspace);
  return e != 0 ? e : add_columns(workspace, rows, width, sums, stream);
}

}  // namespace

GpuError add_column_sums(const float* values, std::size_t rows, std::size_t width, float* workspace,
                         float* sums, Stream stream) {
  return run(values, rows, width, workspace, sums, stream);
}
GpuError add_column_sums(const Bf16* values, std::size_t rows, std::size_t width, float* workspace,
                         float* sums, Stream stream) {
  return run(values, rows, width, workspace, sums, stream);
}

}  // namespace stoker::kernels
