// Long lines of text for people, folded at blanks: what goes on below stands where the value of the
// line begins, behind its label.
#pragma once

#include <string>
#include <string_view>

#include "cli/command.hpp"

namespace stoker::cli {

// Lines of at most `columns` columns; a longer word stays whole. Colours are kept and take no room.
// Pure.
std::string folded(std::string_view text, int columns);

// Folded where standard output is a terminal; a pipe or a file gets each line whole.
std::string for_terminal(const Context& context, std::string text);

}  // namespace stoker::cli
