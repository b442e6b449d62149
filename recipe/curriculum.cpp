// All arithmetic in double, in the order of the source.
#include "recipe/curriculum.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace stoker::recipe {
namespace {

constexpr std::uint64_t kMostLengths = 100'000;
constexpr std::uint64_t kMostIterations = 1'000'000'000'000'000;

}  // namespace

Status check_curriculum(const Curriculum& c, std::uint64_t sequence) {
  if (c.step < 1 || c.step > sequence)
    return fail(fmt::format("must be between 1 and the model's sequence {}", sequence), "step");
  if (c.total < 1 || c.total > kMostIterations)
    return fail(fmt::format("must be between 1 and {}", kMostIterations), "total");
  if (c.min < 1 || c.min % c.step != 0)
    return fail(fmt::format("{} is not a multiple of step {} above 0", c.min, c.step), "min");
  if (c.max > sequence)
    return fail(fmt::format("{} is above the model's sequence {}", c.max, sequence), "max");
  if (c.max < c.min) return fail(fmt::format("{} is below min {}", c.max, c.min), "max");
  if (c.max % c.step != 0)
    return fail(fmt::format("{} is not a multiple of step {}", c.max, c.step), "max");
  if ((c.max - c.min) / c.step > kMostLengths)
    return fail(fmt::format("makes more than {} lengths of min to max", kMostLengths), "step");
  return ok();
}

std::uint64_t curriculum_length(const Curriculum& c, Iteration iteration) {
  if (iteration.value >= c.total) return c.max;
  const double way = static_cast<double>(iteration.value) / static_cast<double>(c.total);
  const double raw =
      std::floor(way * static_cast<double>(c.max - c.min) + static_cast<double>(c.min));
  auto length = static_cast<std::uint64_t>(raw);
  length -= length % c.step;
  return std::clamp(length, c.min, c.max);
}

}  // namespace stoker::recipe
