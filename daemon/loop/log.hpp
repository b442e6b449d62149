// The daemon's own words on stderr: text on a terminal, "<priority>text" under systemd, else one
// JSON object a line. Any thread; one write(2) a line.
#pragma once

#include <string_view>

namespace stoker::daemon {

enum class LogLevel { Error = 3, Warning = 4, Notice = 5, Info = 6 };  // syslog's priorities

void log(LogLevel level, std::string_view text);

}  // namespace stoker::daemon
