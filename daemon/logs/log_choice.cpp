#include "daemon/logs/log_choice.hpp"

#include <algorithm>
#include <atomic>
#include <set>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>

#include "common/os/descriptors.hpp"
#include "common/os/patterns.hpp"
#include "common/os/way.hpp"

namespace stoker::daemon {
namespace {

constexpr std::size_t kMostLogs = 4096;
constexpr std::size_t kLookedAt = 10'000;  // whose owner and age are asked for, on a slow disk too

std::atomic<std::size_t> taken_by_all{0};

// Greater: rather followed.
std::tuple<bool, bool, std::int64_t, std::int64_t> rank_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  const bool ours = info.st_uid == ::geteuid() || info.st_uid == 0;
  return {S_ISREG(info.st_mode) && os::check_way(path), ours, info.st_mtim.tv_sec,
          info.st_mtim.tv_nsec};
}

void keep_the_best(std::vector<FoundLog>& logs, std::size_t room) {
  std::vector<std::pair<decltype(rank_of("")), std::size_t>> ranks;
  for (std::size_t i = 0; i < std::min(logs.size(), kLookedAt); ++i)
    ranks.emplace_back(rank_of(logs[i].path), i);
  std::sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<FoundLog> best;
  for (std::size_t i = 0; i < std::min(ranks.size(), room); ++i)
    best.push_back(std::move(logs[ranks[i].second]));
  logs = std::move(best);
}

}  // namespace

std::string with_star(std::string pattern) {
  for (auto at = pattern.find("%N"); at != std::string::npos; at = pattern.find("%N"))
    pattern.replace(at, 2, "*");
  return pattern;
}

LogChoice choose_logs(const std::vector<std::string>& logs,
                      const std::vector<std::string>& kernel_logs, std::size_t room) {
  LogChoice choice;
  std::set<std::string> seen;
  const auto add = [&](const std::string& pattern, bool kernel) {
    auto paths = os::find_matching_paths(with_star(pattern));
    if (!paths) return choice.too_wide.push_back(paths.error());
    for (std::string& path : *paths)
      if (seen.insert(path).second) choice.logs.push_back({std::move(path), pattern, kernel});
  };
  for (const std::string& pattern : logs) add(pattern, false);
  for (const std::string& pattern : kernel_logs) add(pattern, true);
  choice.found = choice.logs.size();
  if (choice.found > room) keep_the_best(choice.logs, room);
  return choice;
}

std::size_t LogRoom::most() const {
  const std::size_t limit = os::descriptor_limit();
  const std::size_t others = taken_by_all.load() - taken_;
  const std::size_t left = limit / 2 - std::min(limit / 2, others);
  return std::min({limit / 4, left, kMostLogs});
}

void LogRoom::take(std::size_t logs) {
  taken_by_all += logs - taken_;  // both wrap alike
  taken_ = logs;
}

}  // namespace stoker::daemon
