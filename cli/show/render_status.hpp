// One run as a block of text for `stoker status`: state, why, progress, checkpoint, budget, alerts
// and a sparkline of the loss. Pure: the present moment is an argument.
#pragma once

#include <string>
#include <vector>

#include "cli/show/console.hpp"
#include "common/time.hpp"
#include "wire/status.hpp"

namespace stoker::cli {

// Ends in a newline. `console` only paints.
std::string render_status(const wire::StatusDocument& status, WallTime now, const Console& console);

// One character a point, the lowest "_", the highest "^"; levels between in ASCII. Points that are
// no numbers are spaces. All equal: a line of "-".
std::string sparkline(const std::vector<double>& points);

// "50 known, 48 needed, 1 out, 1 to spare; 0.40 lost a day: out of spares in 3.1 days"
std::string spares_line(const wire::StatusSpares& s);

// "12345678" -> "12,345,678".
std::string with_commas(std::uint64_t number);

// A duration of `s` seconds: "12min"; "?" where it is no duration (negative, not finite, over 1e9).
std::string seconds_text(double s);

}  // namespace stoker::cli
