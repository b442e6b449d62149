// Small pieces; the style is in style.hpp.
#include "cli/report/html.hpp"

#include <cmath>
#include <fmt/format.h>

#include "cli/show/console.hpp"
#include "cli/show/render_status.hpp"
#include "common/escape_html.hpp"
#include "common/printable.hpp"

namespace stoker::cli::postmortem {

std::string escaped(std::string_view text) {
  return escape_html(printable(text));
}

std::string amount(double value) {
  if (!std::isfinite(value)) return "–";
  if (value == std::round(value) && std::abs(value) < 1e15 && std::abs(value) >= 1000)
    return (value < 0 ? "-" : "") + with_commas(static_cast<std::uint64_t>(std::abs(value)));
  return fmt::format("{:.4g}", value);
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string span_text(double seconds) {
  return format_duration(std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::isfinite(seconds) ? std::min(seconds, 1e9) : 0)));
}

std::string minute(WallTime wall) {
  std::string text = format_rfc3339(wall).substr(0, 16);
  text[10] = ' ';
  return text + " UTC";
}

std::string section(std::string_view title, const std::string& content) {
  if (content.empty()) return "";
  return fmt::format("<section><h2>{}</h2>\n{}</section>\n", title, content);
}

}  // namespace stoker::cli::postmortem
