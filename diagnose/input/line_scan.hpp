// Scanning of one log line: numbers as programs print them (nan, inf, thousands separators, a unit
// behind), terminal colours, and the prefixes that launchers put in front. No copies but where
// colours are removed; all input is hostile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stoker::diagnose {

// Lines longer than this are read only up to here.
inline constexpr std::size_t kLongestLine = 64u << 10;

// Skips blanks and tabs.
std::string_view trim_left(std::string_view text);
std::string_view trim(std::string_view text);

struct ScannedNumber {
  double value = 0;
  std::size_t length = 0;  // bytes that it took
};
// A number at the start of `text`: "12", "-1.5e-05", "6,785", "nan", "Inf". Not: "07:41:19",
// "1.2.3".
std::optional<ScannedNumber> scan_number(std::string_view text);
// Digits only; fails on overflow.
std::optional<std::uint64_t> scan_count(std::string_view text, std::size_t& length);

// Removes ESC [ ... letter sequences. Without any, returns `text` itself; else fills `storage`.
std::string_view without_colours(std::string_view text, std::string& storage);

// Removes what launchers and loggers put in front: "[default7]:", "[n03:5]", "3: ",
// "(pretraining, pid=4112) ".
std::string_view without_rank_prefix(std::string_view text);

// Position of `word` where it stands alone to its left (no letter, digit or '_' before it).
std::size_t find_word(std::string_view text, std::string_view word, std::size_t from = 0);

}  // namespace stoker::diagnose
