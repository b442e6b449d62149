// What a line says about the phase of a training: an evaluation or a save that begins or ends, a
// checkpoint that is loaded, an end that was planned. A start is not progress: who reads these
// takes them for phases, whose length has limits of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stoker::diagnose {

enum class PhaseMark : std::uint8_t {
  LoadBegins,
  LoadEnds,
  EvaluationBegins,  // and goes on: "Evaluating iter 3/10"
  EvaluationEnds,
  SaveBegins,
  SaveEnds,
  Leaves  // a planned end
};

struct PhaseLine {
  PhaseMark mark = PhaseMark::SaveEnds;
  std::optional<std::uint64_t> iteration;  // of a checkpoint
};

std::optional<PhaseLine> parse_phase_line(std::string_view line);

}  // namespace stoker::diagnose
