// Text as one word of a command line that a shell reads, or that a person pastes into one.
#pragma once

#include <string>

namespace stoker {

// Whether a shell leaves this character of a word as it is.
bool is_plain_in_shell(char c);

// Bare where every character is plain, else in single quotes. Control characters stay: who writes a
// script refuses them, who prints a command replaces them (common/printable.hpp).
std::string shell_word(const std::string& text);

}  // namespace stoker
