// StepPlaces: where in an iteration line the numbers stand that speak of its health. Found once for
// a line by trying it out on the parser itself, they hold for every line of its shape
// (line_shapes.hpp): such a line need not be parsed again. What in the parser depends on how long a
// number is are limits (a name that is too long, ...), so what holds for the shortest and for the
// longest numbers holds for those between.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/parse/loss_watch.hpp"
#include "diagnose/parse/number_place.hpp"

namespace stoker::diagnose {

inline constexpr std::size_t kLongestCount = 15, kLongestFraction = 24;  // digits, in a shape

struct DigitRun {
  std::uint16_t begin = 0, end = 0;  // bytes of the line
};

struct StepPlaces {
  NumberPlace iteration, skipped, nan;
  RealPlace loss, loss_scale, grad_norm;
};

struct StepForm {
  struct Number {  // a number is one run of digits or more, with what stands between them
    std::uint16_t first = 0, last = 0;
    bool minus = false, told = false;
    // Plain: but for the sign it is digits, those behind a point, those of a power, and no more.
    bool plain = false, point = false, power = false;
  };
  bool is_step = false;  // false: of no such line does parse_iteration_line make anything
  Number iteration, loss, loss_scale, grad_norm, skipped, nan;

  [[nodiscard]] StepPlaces places(std::span<const DigitRun> runs) const;
};

// Empty: this line must be parsed each time (a malformed number, a count that may overflow).
std::optional<StepForm> find_step_form(std::string_view line);

// Of a number in groups of thousands ("6,785"): a part of it, whose length shows what it is.
bool keeps_length(std::string_view line, DigitRun run);
std::vector<DigitRun> digit_runs(std::string_view line);

// What parse_iteration_line would say of `line`, bit for bit.
StepNumbers read_step(const StepPlaces& places, std::string_view line);

}  // namespace stoker::diagnose
