// The words and colours of a finding.
#include <fmt/format.h>

#include "cli/doctor/site_checks.hpp"

namespace stoker::cli {

std::string finding_text(const Console& console, const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings) {
    const Ink ink = f.health == Health::Good   ? Ink::Green
                    : f.health == Health::Note ? Ink::Yellow
                                               : Ink::Red;
    text += console.paint(ink, fmt::format("{:<5}", name_of(f.health))) +
            fmt::format(" {:<16} {}\n", f.check, printable(f.found));
    if (f.health != Health::Good && !f.fix.empty())
      text += fmt::format("{:<22} fix: {}\n", "", printable(f.fix));
  }
  return text;
}

}  // namespace stoker::cli
