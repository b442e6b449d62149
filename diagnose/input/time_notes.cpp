// Within a log the lines' order decides; only between logs do the clocks.
#include "diagnose/input/time_notes.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "common/time.hpp"

namespace stoker::diagnose {

namespace {

constexpr std::int64_t kApart = 25 * 60'000;  // the smallest difference of time zones, and drift
constexpr std::size_t kMostNotes = 8;

std::string shown(std::int64_t ms) {
  return format_duration(std::chrono::milliseconds(ms));
}

}  // namespace

std::vector<std::string> time_notes(const std::vector<const Finding*>& candidates,
                                    const std::vector<ScannedLog>& logs) {
  std::vector<std::string> notes;
  const auto note = [&](std::string text) {
    if (notes.size() < kMostNotes) notes.push_back(std::move(text));
  };
  std::set<std::uint32_t> files, untimed;
  for (const Finding* f : candidates) {
    files.insert(f->file);
    if (!f->time_ms) untimed.insert(f->file);
  }
  for (const std::uint32_t file : files) {
    const ScannedLog& log = logs[file];
    if (log.first_time_ms && log.last_time_ms && *log.last_time_ms < *log.first_time_ms)
      note(fmt::format("{}: its clock jumps back by {}; the order of its lines counts", log.name,
                       shown(*log.first_time_ms - *log.last_time_ms)));
  }
  if (files.size() < 2) return notes;
  constexpr std::size_t kSaidEach = 3;  // of more it is said once
  for (const std::uint32_t file : untimed) {
    const bool many = untimed.size() > kSaidEach;
    note(fmt::format(
        "{}: its failures have no date with a year; which failure of two logs came first is "
        "judged by which of them can explain the other",
        many ? fmt::format("{} and {} more logs", logs[file].name, untimed.size() - 1)
             : logs[file].name));
    if (many) break;
  }
  const ScannedLog* before = nullptr;
  for (const std::uint32_t file : files) {
    const ScannedLog& log = logs[file];
    if (!log.first_time_ms || !log.last_time_ms) continue;
    if (before != nullptr) {
      const std::int64_t gap = std::max(*log.first_time_ms - *before->last_time_ms,
                                        *before->first_time_ms - *log.last_time_ms);
      if (gap > kApart)
        note(fmt::format("{} and {} tell times {} apart: another time zone, or another run?",
                         before->name, log.name, shown(gap)));
    }
    before = &log;
  }
  return notes;
}

}  // namespace stoker::diagnose
