#include "common/result.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace stoker {

void check_failed(const char* file, int line, const char* condition, std::string_view text) {
  std::fprintf(stderr, "stoker: bug: %s:%d: %s: %.*s\n", file, line, condition,
               static_cast<int>(text.size()), text.data());
  std::abort();
}

std::string Error::message() const {
  std::string line = object.empty() ? what : object + ": " + what;
  if (!hint.empty()) line += "; " + hint;
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return line;
}

Error errno_error(int error_number, std::string what, std::string object, std::string hint) {
  char buffer[128];
  return {std::move(what) + ": " + strerror_r(error_number, buffer, sizeof buffer),
          std::move(object), std::move(hint)};
}

}  // namespace stoker
