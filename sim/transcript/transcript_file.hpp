// The form of a transcript file, which the decider's (tests/golden) and the lead's (tests/lead)
// share: an input line begins in the first column, what it led to stands below it, indented by four
// columns, in the order of time. `#` begins a comment. No line that is written has more than 120
// columns: an answer goes on in the next line, eight columns deeper; an input line that ends with a
// backslash goes on in the next one.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace stoker::sim {

// What happened before it was the line's turn, and because of it; each a text of whole lines.
struct LineAnswer {
  std::string meanwhile, then;
};
using RunLine = std::function<Result<LineAnswer>(std::string_view line)>;

// The same file with the answers as they are now; the caller compares. Errors name the line.
Result<std::string> rerun_file(std::string_view file, const std::string& name, const RunLine& run);

// `text`'s lines, each indented by four columns and broken at spaces after 120 columns at most.
std::string laid_out(std::string_view text);

}  // namespace stoker::sim
