#include "common/last_line.hpp"

#include <algorithm>

namespace stoker {
namespace {

bool speaks(char c) {  // of other alphabets, every byte counts
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         static_cast<unsigned char>(c) >= 0x80;
}

}  // namespace

std::string_view last_line_of(std::string_view output) {
  while (!output.empty()) {
    const auto newline = output.rfind('\n');
    std::string_view line = newline == output.npos ? output : output.substr(newline + 1);
    if (std::any_of(line.begin(), line.end(), speaks)) {
      while (line.back() == '\r') line.remove_suffix(1);
      return line;
    }
    output = newline == output.npos ? std::string_view{} : output.substr(0, newline);
  }
  return {};
}

}  // namespace stoker
