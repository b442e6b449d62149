#include "worker/train/comm/comm.hpp"

#include <algorithm>

namespace stoker::train {
namespace {

template <class T>
void reduce_typed(T* total, const T* next, std::size_t count, Reduce how) {
  if (how == Reduce::Sum)
    for (std::size_t i = 0; i < count; ++i) total[i] += next[i];
  else
    for (std::size_t i = 0; i < count; ++i) total[i] = std::max(total[i], next[i]);
}

}  // namespace

void reduce_into(Buffer total, const void* next, Reduce how) {
  if (total.element == Element::F64)
    reduce_typed(static_cast<double*>(total.data), static_cast<const double*>(next), total.count,
                 how);
  else
    reduce_typed(static_cast<float*>(total.data), static_cast<const float*>(next), total.count,
                 how);
}

}  // namespace stoker::train
