// Free space and inodes of the paths that a run writes to, as edges: DiskLow when a share falls
// below its limit, DiskLow{low = false} when it is 1.2 limits again. statvfs may block on a dead
// mount: the caller's thread is a reader thread with a deadline.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/engine.hpp"

namespace stoker::watch {

struct DiskShares {  // of 1, as an ordinary user sees them
  double free = 1;
  std::optional<double> free_inodes;  // empty: this file system does not count them
};
Result<DiskShares> disk_shares(const std::string& path);

struct DiskOptions {
  RunName run;
  std::vector<std::string> paths;
  double min_free = 0.05, min_free_inodes = 0.02;
};

class DiskWatch {
 public:
  using Probe = std::function<Result<DiskShares>(const std::string&)>;
  DiskWatch(DiskOptions options, const std::vector<core::Cursor>& cursors,
            Probe probe = disk_shares);

  void poll(std::vector<core::Input>& out);

 private:
  void judge(const std::string& name, double share, double limit, std::vector<core::Input>& out);
  DiskOptions options_;
  Probe probe_;
  std::map<std::string, bool> low_;  // by "path" and "path (inodes)"
};

}  // namespace stoker::watch
