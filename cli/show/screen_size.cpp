// The environment wins: it is how a person says it (tput and other programs do so too).
#include "cli/show/screen_size.hpp"

#include <algorithm>
#include <charconv>
#include <sys/ioctl.h>

namespace stoker::cli {
namespace {

constexpr int kMost = 1000;

// 0 = not given, or no number.
int number_in(const std::map<std::string, std::string>& environment, const std::string& name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return 0;
  const std::string& text = found->second;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool good = error == std::errc() && end == text.data() + text.size() && number > 0;
  return good ? std::min(number, kMost) : 0;
}

}  // namespace

ScreenSize screen_size(const std::map<std::string, std::string>& environment, int fd) {
  ScreenSize size;
  winsize window{};
  if (::ioctl(fd, TIOCGWINSZ, &window) == 0) {
    if (window.ws_row > 0) size.rows = std::min<int>(window.ws_row, kMost);
    if (window.ws_col > 0) size.columns = std::min<int>(window.ws_col, kMost);
  }
  if (const int rows = number_in(environment, "LINES"); rows > 0) size.rows = rows;
  if (const int columns = number_in(environment, "COLUMNS"); columns > 0) size.columns = columns;
  return size;
}

}  // namespace stoker::cli
