// Text of others made safe for a terminal: of logs, files, other people's reasons. It is shown,
// never obeyed. What prints outside text goes through here (tests/lint, rule printing).
#pragma once

#include <string>
#include <string_view>

namespace stoker {

// Everything that a terminal could take for a command, or that reorders what a person reads,
// becomes a space or '?'. Valid UTF-8 stays.
std::string printable(std::string_view text);
// The same for text of several lines: newlines stay.
std::string printable_lines(std::string_view text);

// One line on standard error, made printable, in one write(2).
void tell_stderr(std::string_view line);

}  // namespace stoker
