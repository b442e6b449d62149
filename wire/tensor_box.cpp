#include "wire/tensor_box.hpp"

#include <algorithm>

namespace stoker::wire {
namespace {

constexpr std::uint64_t kMost = std::uint64_t{1} << 63;

// Offset of the element at `place` (counted in the tensor) inside a box.
std::uint64_t offset_in(const TensorBox& box, const Shape& place) {
  std::uint64_t offset = 0;
  for (std::size_t d = 0; d < place.size(); ++d)
    offset = offset * box.extent[d] + (place[d] - box.first[d]);
  return offset;
}

// Behind this dimension both boxes are as wide as the tensor, so rows follow each other.
std::size_t last_cut(const Shape& shape, const TensorBox& a, const TensorBox& b) {
  std::size_t d = shape.size();
  while (d > 1 && a.extent[d - 1] == shape[d - 1] && b.extent[d - 1] == shape[d - 1]) --d;
  return d == 0 ? 0 : d - 1;
}

}  // namespace

TensorBox whole_box(const Shape& shape) {
  return {Shape(shape.size(), 0), shape};
}

std::uint64_t elements_of(const Shape& shape) {
  std::uint64_t total = 1;
  for (const std::uint64_t extent : shape) {
    if (extent != 0 && total > kMost / extent) return 0;
    total *= extent;
  }
  return total;
}

bool fits(const TensorBox& box, const Shape& shape) {
  if (shape.empty() || shape.size() > kMostDimensions || box.first.size() != shape.size() ||
      box.extent.size() != shape.size())
    return false;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (box.first[d] > shape[d] || box.extent[d] > shape[d] - box.first[d]) return false;
  return true;
}

bool overlap(const TensorBox& a, const TensorBox& b) {
  for (std::size_t d = 0; d < a.first.size(); ++d)
    if (std::max(a.first[d], b.first[d]) >=
        std::min(a.first[d] + a.extent[d], b.first[d] + b.extent[d]))
      return false;
  return true;
}

void for_each_run(const Shape& shape, const TensorBox& a, const TensorBox& b,
                  const std::function<void(const Run&)>& use) {
  if (!overlap(a, b)) return;
  Shape begin(shape.size()), end(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    begin[d] = std::max(a.first[d], b.first[d]);
    end[d] = std::min(a.first[d] + a.extent[d], b.first[d] + b.extent[d]);
  }
  const std::size_t cut = last_cut(shape, a, b);
  std::uint64_t count = 1;
  for (std::size_t d = cut; d < shape.size(); ++d) count *= end[d] - begin[d];
  const TensorBox tensor = whole_box(shape);
  for (Shape place = begin;;) {
    use({offset_in(tensor, place), offset_in(a, place), offset_in(b, place), count});
    std::size_t d = cut;
    for (; d > 0 && ++place[d - 1] == end[d - 1]; --d) place[d - 1] = begin[d - 1];
    if (d == 0) return;
  }
}

void for_each_run(const Shape& shape, const TensorBox& box, std::uint64_t begin,
                  std::uint64_t count, const std::function<void(const Run&)>& use) {
  for_each_run(shape, box, box, [&](const Run& run) {
    const std::uint64_t from = std::max(run.in_a, begin);
    const std::uint64_t to = std::min(run.in_a + run.count, begin + count);
    if (from < to) use({run.in_tensor + (from - run.in_a), from, from - begin, to - from});
  });
}

}  // namespace stoker::wire
