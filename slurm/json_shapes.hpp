// SLURM's JSON, read tolerantly: every release changes its shape (numbers become {set, infinite,
// number}, a state becomes a list with flags, an exit code an object). Each reader takes all shapes
// that its field has had from 21.08 to 26.05.
#pragma once

#include <optional>
#include <string>

#include "common/json.hpp"
#include "core/event.hpp"

namespace stoker::slurm {

// 7, {"set": true, "infinite": false, "number": 7}; null, an unset one or NO_VAL: none.
std::optional<std::uint64_t> number_in(const Json& value);
std::optional<std::uint64_t> number_of(const Json& object, const char* key);
std::string text_of(const Json& object, const char* key);  // "" = none

// "RUNNING", ["RUNNING"], ["CANCELLED", "COMPLETING"]: a flag beside the state decides, as squeue
// shows it in its place.
std::optional<core::JobState> state_in(const Json& value);

struct ExitShape {
  int code = 0, signal = 0;
};
// 256 as waitpid() says; {"return_code": 1, "signal": {"signal_id": 9}}; since 23.11 with numbers
// as objects and the signal's "id".
ExitShape exit_in(const Json& value);

}  // namespace stoker::slurm
