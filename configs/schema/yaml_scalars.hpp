// The scalars of a configuration file: how one word becomes a number, duration, size or share.
// Pure; the error text says what was expected and shows an example, the reader adds the place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace stoker::configs {

// Whole decimal numbers, underscores between digits allowed: 5000000, 9_765_625, -3.
Result<std::int64_t> parse_whole(std::string_view text);
Result<std::uint64_t> parse_count(std::string_view text);  // the same, never negative
// 0.1, 6.0e-4, 3; never nan or inf.
Result<double> parse_real(std::string_view text);
// Only true and false.
Result<bool> parse_truth(std::string_view text);
// Bytes: 512MiB, 4KiB, 1.5GiB, 20GB, 100B. A bare number is refused: its unit would be a guess.
Result<std::uint64_t> parse_size(std::string_view text);
// A share of one, in [0, 1]: 5%, 2.5%, 0.05.
Result<double> parse_share(std::string_view text);

std::string format_size(std::uint64_t bytes);  // exact: the largest binary unit that divides it
std::string format_share(double share);        // "5%"

// The candidate nearest to `name` by edit distance (swaps count one), or "" when nothing is near
// enough to be meant.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace stoker::configs
