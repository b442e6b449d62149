#include "common/os/memory_room.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "common/os/files.hpp"

namespace stoker::os {
namespace {

constexpr std::size_t kMost = 1u << 16;

std::optional<std::uint64_t> number_of(std::string_view text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t")));
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;  // "max"
  return value;
}

std::optional<std::uint64_t> number_in(const std::string& path) {
  const auto text = read_file(path, kMost);
  return text ? number_of(*text) : std::nullopt;
}

// "key number" at the beginning of a line.
std::optional<std::uint64_t> field_in(const std::string& path, const std::string& key) {
  const auto text = read_file(path, kMost);
  if (!text) return std::nullopt;
  const std::string lines = "\n" + *text;
  const auto at = lines.find("\n" + key);
  if (at == std::string::npos) return std::nullopt;
  return number_of(std::string_view(lines).substr(at + 1 + key.size()));
}

struct Names {  // of a version of control groups
  std::string root, limit, used, droppable;
};

void narrow(MemoryRoom& room, const std::string& folder, const Names& names) {
  const auto limit = number_in(folder + names.limit);
  const auto used = number_in(folder + names.used);
  if (!limit || !used) return;
  const std::uint64_t dropped = field_in(folder + "/memory.stat", names.droppable).value_or(0);
  const std::uint64_t held = *used - std::min(*used, dropped);
  const std::uint64_t free = *limit - std::min(*limit, held);
  if (free < room.free) room = {free, limit, held};
}

// The group and all above it.
void narrow_upwards(MemoryRoom& room, std::string path, const Names& names) {
  while (true) {
    narrow(room, names.root + path, names);
    const auto slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return;
    path.erase(slash);
  }
}

}  // namespace

std::optional<MemoryRoom> memory_room(const std::string& proc, const std::string& cgroups) {
  const auto host = field_in(proc + "/meminfo", "MemAvailable:");
  if (!host) return std::nullopt;
  MemoryRoom room{*host * 1024};
  const auto groups = read_file(proc + "/self/cgroup", kMost);
  std::string_view rest = groups ? std::string_view(*groups) : std::string_view();
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const auto path = line.find(":/");
    if (path == std::string_view::npos) continue;
    std::string group(line.substr(path + 1));
    if (group == "/") group.clear();
    if (line.starts_with("0::"))
      narrow_upwards(room, group, {cgroups, "/memory.max", "/memory.current", "inactive_file "});
    else if (line.substr(0, path).find(":memory") != std::string_view::npos)
      narrow_upwards(room, group,
                     {cgroups + "/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                      "total_inactive_file "});
  }
  return room;
}

}  // namespace stoker::os
