// TensorBox: a rectangular part of a tensor in any number of dimensions: what one tensor-parallel
// rank holds of it. Elements of a box are numbered in row-major order of the box. Tensors and boxes
// are counted in elements.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/json.hpp"

namespace stoker::wire {

using Shape = std::vector<std::uint64_t>;

inline constexpr std::size_t kMostDimensions = 8;

struct TensorBox {
  Shape first;   // where it begins, in each dimension
  Shape extent;  // how long it is
  STOKER_FIELDS(TensorBox, first, extent)
};

TensorBox whole_box(const Shape& shape);
// 0 when the product is larger than 2^63: no tensor has that.
std::uint64_t elements_of(const Shape& shape);
// As many dimensions as the shape, and inside it.
bool fits(const TensorBox& box, const Shape& shape);
// Without elements in common they are apart.
bool overlap(const TensorBox& a, const TensorBox& b);

// A stretch that is contiguous in the tensor and in both boxes.
struct Run {
  std::uint64_t in_tensor = 0, in_a = 0, in_b = 0, count = 0;
};
// Calls `use` with the common elements of two boxes of one tensor, in row-major order, in runs as
// long as possible. Both fit the shape.
void for_each_run(const Shape& shape, const TensorBox& a, const TensorBox& b,
                  const std::function<void(const Run&)>& use);
// The same for elements [begin, begin + count) of one box: in_a counts in the box, in_b from begin.
void for_each_run(const Shape& shape, const TensorBox& box, std::uint64_t begin,
                  std::uint64_t count, const std::function<void(const Run&)>& use);

}  // namespace stoker::wire
