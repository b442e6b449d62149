// Words of the report: escaped text, times, amounts. All that comes from logs, files or people is
// text, never a tag.
#pragma once

#include <string>
#include <string_view>

#include "common/time.hpp"

namespace stoker::cli::postmortem {

std::string escaped(std::string_view text);  // printable, one line
std::string amount(double value);            // four digits: "0.0612", "12,345"
std::string percent(double share);           // "91.2 %"
std::string span_text(double seconds);       // "1h 02min"
std::string minute(WallTime wall);           // "2026-05-01 03:56 UTC"

// <section> with its heading; empty content: no section.
std::string section(std::string_view title, const std::string& content);

}  // namespace stoker::cli::postmortem
