// What `stoker status --watch` draws: blocks of text cut to a screen, so that no line wraps and
// nothing scrolls. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/show/screen_size.hpp"

namespace stoker::cli {

// Each block begins with its state and ends in a newline; colours are kept. Where all of them do
// not fit, each gets as many of its first lines as the others leave, and the last line says what is
// not shown. At most size.rows - 1 lines, since the cursor stands below them.
std::string watch_screen(const std::vector<std::string>& blocks, ScreenSize size);

}  // namespace stoker::cli
