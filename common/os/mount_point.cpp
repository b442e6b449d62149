#include "common/os/mount_point.hpp"

#include "common/os/fuse_mount.hpp"
#include "common/os/kernel_table.hpp"

namespace stoker::os {

bool is_at_or_below(std::string_view path, std::string_view folder) {
  if (folder == "/") return path.starts_with('/');
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

std::string mount_point_of(const std::string& path) {
  std::string longest = "/";
  (void)read_table("/proc/self/mountinfo", [&](std::string_view line) {
    const auto mount = parse_mount(line);
    if (mount && mount->place.size() > longest.size() && is_at_or_below(path, mount->place))
      longest = mount->place;
    return true;
  });
  return longest;
}

}  // namespace stoker::os
