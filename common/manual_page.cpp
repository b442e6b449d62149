// Text of man(7) pages.
#include "common/manual_page.hpp"

#include <fmt/format.h>

namespace stoker {
namespace {

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

// As manual pages call it.
std::string heading(const std::string& words) {
  if (words == "Example") return "EXAMPLES";
  return words == "Exit codes" ? "EXIT STATUS" : upper(words);
}

bool is_heading(std::string_view line) {
  return !line.empty() && line.front() != ' ' && line.find(':') != std::string_view::npos;
}

}  // namespace

std::string troff_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if ((out.empty() || out.back() == '\n') && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string manual_title(const std::string& name, const std::string& version, int section) {
  return fmt::format(".TH {} {} \"\" \"stoker {}\" \"{}\"\n", troff_text(upper(name)), section,
                     version, section == 1 ? "User Commands" : "File Formats");
}

std::string manual_item(const std::string& name, const std::string& meaning) {
  return fmt::format(".TP\n.B {}\n{}\n", troff_text(name), troff_text(meaning));
}

std::string manual_notes(const std::string& footer, bool headings) {
  std::string text;
  bool filled = true;  // a line is printed as it stands when not
  for (std::string_view rest = footer; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (is_heading(line)) {
      const std::size_t colon = line.find(':');
      const std::string words = heading(std::string(line.substr(0, colon)));
      if (!filled) text += ".fi\n";
      filled = words != "EXAMPLES";
      text += headings ? fmt::format(".SH {}\n", words) : std::string(".PP\n");
      if (!filled) text += ".nf\n";
      line.remove_prefix(colon + 1);
    }
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (!line.empty()) text += troff_text(line) + "\n";
  }
  return filled ? text : text + ".fi\n";
}

std::string manual_begin(const ManualHead& head, bool has_commands) {
  const std::string name = troff_text(head.name);
  return manual_title(head.name, head.version) +
         fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n[\\fIoptions\\fR]{}\n", name,
                     troff_text(head.summary), name,
                     has_commands ? " [\\fIcommand\\fR [\\fIarguments\\fR]]" : "") +
         ".SH DESCRIPTION\n" + troff_text(head.description) + "\n";
}

std::string manual_see_also(const ManualHead& head) {
  std::string text;
  for (const auto& [name, section] : head.see_also)
    text += fmt::format("{}.BR {} ({})", text.empty() ? "" : ",\n", troff_text(name), section);
  return ".SH SEE ALSO\n" + text + "\n";
}

}  // namespace stoker
