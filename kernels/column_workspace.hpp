// How much memory the kernels need that add up columns (columns.hpp): the caller provides it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker::kernels {

// Groups of rows that are added up on their own; two for each of the 132 multiprocessors of a
// Hopper.
inline constexpr std::int64_t kRowGroups = 264;

// f32 values, for a matrix of this width.
constexpr std::size_t column_workspace(std::size_t width) {
  return static_cast<std::size_t>(kRowGroups) * width;
}

}  // namespace stoker::kernels
