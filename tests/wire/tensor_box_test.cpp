// Boxes of tensors against a walk over every element.
#include "wire/tensor_box.hpp"

#include <doctest/doctest.h>
#include <random>

using namespace stoker;
using namespace stoker::wire;

namespace {

// Element number in the tensor -> number in the box, or -1 outside.
std::vector<std::int64_t> numbers(const Shape& shape, const TensorBox& box) {
  std::vector<std::int64_t> all(elements_of(shape), -1);
  std::int64_t next = 0;
  for (std::uint64_t i = 0; i < all.size(); ++i) {
    bool inside = true;
    std::uint64_t left = i;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const std::uint64_t at = left % shape[d];
      left /= shape[d];
      inside = inside && at >= box.first[d] && at < box.first[d] + box.extent[d];
    }
    if (inside) all[i] = next++;
  }
  return all;
}

TensorBox random_box(const Shape& shape, std::mt19937& rng) {
  TensorBox box;
  for (const std::uint64_t extent : shape) {
    box.first.push_back(rng() % extent);
    box.extent.push_back(rng() % 3 == 0 ? extent - box.first.back()
                                        : rng() % (extent - box.first.back() + 1));
    if (rng() % 3 == 0) box.first.back() = 0, box.extent.back() = extent;
  }
  return box;
}

}  // namespace

TEST_CASE("for_each_run: common elements of two random boxes -> each once, in order, where it is") {
  std::mt19937 rng(7);
  for (int round = 0; round < 2000; ++round) {
    Shape shape(1 + rng() % 4);
    for (auto& extent : shape) extent = 1 + rng() % 6;
    const TensorBox a = random_box(shape, rng), b = random_box(shape, rng);
    const auto in_a = numbers(shape, a), in_b = numbers(shape, b);
    std::vector<std::uint64_t> seen;
    for_each_run(shape, a, b, [&](const Run& run) {
      CHECK(run.count > 0);
      for (std::uint64_t i = 0; i < run.count; ++i) {
        REQUIRE(run.in_tensor + i < in_a.size());
        CHECK(in_a[run.in_tensor + i] == static_cast<std::int64_t>(run.in_a + i));
        CHECK(in_b[run.in_tensor + i] == static_cast<std::int64_t>(run.in_b + i));
        seen.push_back(run.in_tensor + i);
      }
    });
    std::vector<std::uint64_t> want;
    for (std::uint64_t i = 0; i < in_a.size(); ++i)
      if (in_a[i] >= 0 && in_b[i] >= 0) want.push_back(i);
    CHECK(seen == want);
    CHECK(overlap(a, b) == !want.empty());
  }
}

TEST_CASE("for_each_run: a range of a box of columns -> its rows, counted from the range") {
  std::vector<Run> runs;
  for_each_run({3, 4}, {{0, 2}, {3, 2}}, 1, 4, [&](const Run& run) { runs.push_back(run); });
  REQUIRE(runs.size() == 3);
  CHECK(runs[0].in_tensor == 3);
  CHECK(runs[1].in_tensor == 6);
  CHECK(runs[1].in_b == 1);
  CHECK(runs[1].count == 2);
  CHECK(runs[2].in_tensor == 10);
  CHECK(runs[2].count == 1);
}

TEST_CASE("for_each_run: whole rows of a tensor -> one run") {
  int runs = 0;
  for_each_run({100, 7}, {{20, 0}, {30, 7}}, 0, 210, [&](const Run& run) {
    ++runs;
    CHECK(run.in_tensor == 140);
    CHECK(run.count == 210);
  });
  CHECK(runs == 1);
}

TEST_CASE("fits, elements_of: hostile numbers -> refused") {
  CHECK(fits({{0, 2}, {3, 2}}, {3, 4}));
  CHECK_FALSE(fits({{0, 3}, {3, 2}}, {3, 4}));
  CHECK_FALSE(fits({{0, ~0ull}, {3, 2}}, {3, 4}));
  CHECK_FALSE(fits({{0}, {3}}, {3, 4}));
  CHECK_FALSE(fits({{}, {}}, {}));
  CHECK(elements_of({1ull << 40, 1ull << 40}) == 0);
}
