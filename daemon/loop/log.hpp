// The daemon's own words on stderr: text on a terminal, "<priority>text" under systemd, else one
// JSON object a line. Any thread; one write(2) a line, by a thread of its own: who may read the
// file that stderr is can keep its lock in the kernel, and a terminal or a pipe can stand still.
#pragma once

#include <string_view>

namespace stoker::daemon {

enum class LogLevel { Error = 3, Warning = 4, Notice = 5, Info = 6 };  // syslog's priorities

// Returns when the line is written, but waits for that at most 50 ms, and not at all behind a line
// that waits longer. Behind 10,000 such lines it is lost, and counted in the first one after them.
void log(LogLevel level, std::string_view text);
// Before the process ends: waits for the lines, at most two seconds.
void flush_log();

}  // namespace stoker::daemon
