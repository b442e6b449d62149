#include "common/os/mount_point.hpp"

#include <algorithm>

#include "common/os/kernel_table.hpp"

namespace stoker::os {
namespace {

constexpr int kPlace = 4;  // fields before it: ids, device, root

bool is_octal(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '7'; });
}

}  // namespace

std::string mount_point_in(std::string_view line) {
  for (int field = 0; field < kPlace; ++field) {
    const auto end = line.find(' ');
    if (end == std::string_view::npos) return "";
    line.remove_prefix(end + 1);
  }
  const std::string_view text = line.substr(0, line.find(' '));
  std::string place;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(i + 1, 3);
    if (text[i] != '\\' || digits.size() < 3 || !is_octal(digits)) {
      place += text[i];
      continue;
    }
    place += static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + digits[2] - '0');
    i += 3;
  }
  return place.starts_with('/') ? place : "";
}

bool is_at_or_below(std::string_view path, std::string_view folder) {
  if (folder == "/") return path.starts_with('/');
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

std::string mount_point_of(const std::string& path) {
  std::string longest = "/";
  (void)read_table("/proc/self/mountinfo", [&](std::string_view line) {
    std::string place = mount_point_in(line);
    if (place.size() > longest.size() && is_at_or_below(path, place)) longest = std::move(place);
    return true;
  });
  return longest;
}

}  // namespace stoker::os
