// Edges with hysteresis; which ones are low survives a restart in the cursors.
#include "watch/disk.hpp"

#include <cerrno>
#include <sys/statvfs.h>

namespace stoker::watch {

namespace {
constexpr double kEnoughAgain = 1.2;
constexpr std::string_view kPrefix = "disk:";
}  // namespace

Result<DiskShares> disk_shares(const std::string& path) {
  struct statvfs about {};
  int result = 0;
  do {
    result = ::statvfs(path.c_str(), &about);
  } while (result != 0 && errno == EINTR);
  if (result != 0) return fail(errno_error(errno, "cannot tell the free space", path));
  DiskShares shares;
  if (about.f_blocks > 0)
    shares.free = static_cast<double>(about.f_bavail) / static_cast<double>(about.f_blocks);
  if (about.f_files > 0)
    shares.free_inodes = static_cast<double>(about.f_favail) / static_cast<double>(about.f_files);
  return shares;
}

DiskWatch::DiskWatch(DiskOptions options, const std::vector<core::Cursor>& cursors, Probe probe)
    : options_(std::move(options)), probe_(std::move(probe)) {
  const std::string prefix = std::string(kPrefix) + options_.run.text + ":";
  for (const auto& cursor : cursors)
    if (cursor.path.starts_with(prefix))
      low_[cursor.path.substr(prefix.size())] = cursor.offset == 1;
}

void DiskWatch::poll(std::vector<core::Input>& out) {
  for (const auto& path : options_.paths) {
    const auto shares = probe_(path);
    if (!shares) continue;  // a mount that does not answer is not a full disk
    judge(path, shares->free, options_.min_free, out);
    if (shares->free_inodes)
      judge(path + " (inodes)", *shares->free_inodes, options_.min_free_inodes, out);
  }
}

void DiskWatch::judge(const std::string& name, double share, double limit,
                      std::vector<core::Input>& out) {
  bool& low = low_[name];
  if (low ? share < limit * kEnoughAgain : share >= limit) return;
  low = !low;
  core::Cursor cursor;
  cursor.path = std::string(kPrefix) + options_.run.text + ":" + name;
  cursor.offset = low ? 1 : 0;
  out.push_back({options_.run, core::DiskLow{name, share, low}, {std::move(cursor)}});
}

}  // namespace stoker::watch
