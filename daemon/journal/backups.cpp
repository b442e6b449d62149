// Backups of the journal: one file a day, the newest seven are kept.
#include <algorithm>
#include <cstdio>

#include "common/os/files.hpp"
#include "daemon/journal/recovery.hpp"

namespace stoker::daemon {
namespace {

constexpr std::string_view kPrefix = "journal-";
constexpr std::string_view kSuffix = ".db";

}  // namespace

std::vector<std::string> list_backups(const std::string& directory) {
  std::vector<std::string> out;
  const auto names = os::list_directory(directory);
  if (!names) return out;
  for (const std::string& name : *names)
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix)) out.push_back(directory + "/" + name);
  std::sort(out.rbegin(), out.rend());
  return out;
}

std::string backup_path(const std::string& directory, WallTime now) {
  return directory + "/" + std::string(kPrefix) + format_rfc3339(now).substr(0, 10) +
         std::string(kSuffix);
}

bool backup_is_due(const std::string& directory, WallTime now) {
  const auto all = list_backups(directory);
  return all.empty() || all.front() < backup_path(directory, now);
}

void prune_backups(const std::string& directory, std::size_t keep) {
  const auto all = list_backups(directory);
  for (std::size_t i = keep; i < all.size(); ++i) std::remove(all[i].c_str());
}

}  // namespace stoker::daemon
