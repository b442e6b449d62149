// Diagnostic: one error of a configuration file with its place, as compilers print it:
// "file:line:col: error: text". A reader collects them all; nothing stops at the first one.
#pragma once

#include <algorithm>
#include <compare>
#include <string>
#include <vector>

namespace stoker::configs {

// Counted from 1; line 0 means "nowhere in the file" (a default).
struct Position {
  int line = 0;
  int column = 0;
  auto operator<=>(const Position&) const = default;
};

struct Diagnostic {
  std::string file;
  Position at;
  std::string message;
  bool operator==(const Diagnostic&) const = default;

  // "run.yaml:3:9: error: unknown key ..."; without line and column when the place is nowhere.
  [[nodiscard]] std::string text() const {
    std::string line = file;
    if (at.line > 0) line += ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
    line += ": error: " + message;
    std::replace_if(
        line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
    return line;
  }
};

using Diagnostics = std::vector<Diagnostic>;

}  // namespace stoker::configs
