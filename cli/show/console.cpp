// Console: standard streams, ANSI colours, and text made safe for a terminal.
#include "cli/show/console.hpp"

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace stoker::cli {

Console Console::standard() {
  const auto to = [](std::FILE* stream) {
    return [stream](std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), stream);
      std::fflush(stream);
    };
  };
  return {to(stdout), to(stderr)};
}

void Console::say(std::string_view text) const {
  err_("stoker: " + printable(text) + "\n");
}

std::string Console::paint(Ink ink, std::string_view text) const {
  if (!color_ || ink == Ink::Plain) return std::string(text);
  const char* code = "";
  switch (ink) {
    case Ink::Plain: break;
    case Ink::Bold: code = "1"; break;
    case Ink::Dim: code = "2"; break;
    case Ink::Red: code = "31"; break;
    case Ink::Green: code = "32"; break;
    case Ink::Yellow: code = "33"; break;
    case Ink::Cyan: code = "36"; break;
  }
  return "\033[" + std::string(code) + "m" + std::string(text) + "\033[0m";
}

bool wants_color(ColorChoice choice) {
  if (choice != ColorChoice::Auto) return choice == ColorChoice::Always;
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  const char* term = std::getenv("TERM");
  if (set("NO_COLOR") || (term != nullptr && std::string_view(term) == "dumb")) return false;
  return set("CLICOLOR_FORCE") || ::isatty(STDOUT_FILENO) == 1;
}

}  // namespace stoker::cli
