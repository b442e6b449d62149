// How much memory this process and those beside it can still get: of the host, and of the control
// groups (version 1 or 2) that hold it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace stoker::os {

struct MemoryRoom {
  std::uint64_t free = 0;                        // the least of all; what can be dropped counts
  std::optional<std::uint64_t> limit{}, used{};  // of the control group, where that is the least
};
// Empty: nothing is known.
std::optional<MemoryRoom> memory_room(const std::string& proc = "/proc",
                                      const std::string& cgroups = "/sys/fs/cgroup");

}  // namespace stoker::os
