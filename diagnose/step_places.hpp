// StepPlaces: where in an iteration line the numbers stand that speak of its health. Found once for
// a line by trying it out on the parser itself, they hold for every line that differs from it in its
// digits alone: such a line need not be parsed again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "diagnose/loss_watch.hpp"

namespace stoker::diagnose {

struct NumberPlace {
  std::uint32_t at = 0, length = 0;  // length 0: the line does not tell it
};

struct StepPlaces {
  NumberPlace iteration, loss, loss_scale, skipped, nan;
};

struct StepForm {
  bool is_step = false;  // of none of these lines does parse_iteration_line make anything
  StepPlaces places;
};

// Empty: this line must be parsed each time (a number that is none, a count that may overflow).
std::optional<StepForm> find_step_form(std::string_view line);

// What parse_iteration_line would say of `line`, bit for bit.
StepNumbers read_step(const StepPlaces& places, std::string_view line);

}  // namespace stoker::diagnose
