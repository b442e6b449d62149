// Log: three forms of the same line.
#include "daemon/loop/log.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <unistd.h>

#include "common/json.hpp"
#include "common/printable.hpp"

namespace stoker::daemon {
namespace {

const char* level_name(LogLevel level) {
  switch (level) {
    case LogLevel::Error: return "error";
    case LogLevel::Warning: return "warning";
    case LogLevel::Notice: return "notice";
    case LogLevel::Info: return "info";
  }
  return "";
}

}  // namespace

void log(LogLevel level, std::string_view text) {
  static const bool terminal = ::isatty(STDERR_FILENO) != 0;
  static const bool systemd = std::getenv("JOURNAL_STREAM") != nullptr;
  const std::string clean = printable(text);
  const std::string now = format_rfc3339(wall_now(), true);
  std::string line;
  if (systemd)
    line = fmt::format("<{}>{}\n", static_cast<int>(level), clean);
  else if (terminal)
    line = fmt::format("stokerd {} {}{}\n", now.substr(11, 8),
                       level <= LogLevel::Warning ? fmt::format("{}: ", level_name(level)) : "",
                       clean);
  else
    line = dump_json({{"time", now}, {"level", level_name(level)}, {"message", clean}}) + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace stoker::daemon
