// The log whose next line is the oldest speaks; among equals the one that spoke last goes on.
#include "cli/replay/log_merge.hpp"

#include <algorithm>
#include <filesystem>
#include <sys/stat.h>

#include "common/time.hpp"
#include "diagnose/parse/iteration_line.hpp"

namespace stoker::cli {

namespace {

constexpr std::size_t kLongestIterationLine = 16u << 10;

// When the file was last written: its lines are older.
std::int64_t newest_ms(const std::string& path) {
  struct stat status {};
  if (path == "-" || ::stat(path.c_str(), &status) != 0)
    return wall_now().time_since_epoch() / std::chrono::milliseconds(1);
  return std::int64_t{status.st_mtim.tv_sec} * 1000;
}

constexpr std::uint64_t kHead = 64u << 20;  // a log with times has one in this much of it

// When a log begins: its first stamp, less what the iterations in front of it took. Empty: no line
// has a time.
std::optional<std::int64_t> beginning(const LogInput& input, diagnose::ClockRules rules) {
  auto reader = diagnose::LogReader::open(input.path, {}, input.links);
  if (!reader) return std::nullopt;
  diagnose::LogClock clock(rules);
  std::uint64_t read = 0;
  std::int64_t before = 0;
  for (auto block = reader->next(); !block.empty() && read < kHead; block = reader->next()) {
    read += block.size();
    for (std::string_view rest = block; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      const auto metrics = line.size() <= kLongestIterationLine
                               ? diagnose::parse_iteration_line(line)
                               : std::optional<diagnose::IterationMetrics>();
      const std::int64_t ms = clock.line(line, metrics ? &*metrics : nullptr);
      if (clock.stamped()) return ms - before;
      before = ms;
    }
  }
  return std::nullopt;
}

}  // namespace

struct LogMerge::Log {
  Log(diagnose::LogReader r, diagnose::ClockRules rules) : reader(std::move(r)), clock(rules) {}
  diagnose::LogReader reader;
  diagnose::LogClock clock;
  std::string_view block;  // what is left of it
  MergedLine line;
  std::optional<std::int64_t> begins;
  bool ended = false;
};

LogMerge::LogMerge(const std::vector<LogInput>& inputs, diagnose::ClockRules rules,
                   const diagnose::UserPattern* pattern, std::vector<std::string>& errors)
    : pattern_(pattern) {
  std::optional<std::int64_t> earliest;
  for (const LogInput& input : inputs) {
    auto reader = diagnose::LogReader::open(input.path, {}, input.links);
    if (!reader) {
      errors.push_back(reader.error().message());
      continue;
    }
    rules.newest_ms = newest_ms(input.path);
    auto log = std::make_unique<Log>(std::move(*reader), rules);
    log->line.source = logs_.size();
    log->begins = beginning(input, rules);
    if (log->begins) earliest = std::min(earliest.value_or(*log->begins), *log->begins);
    names_.push_back({input.path, input.kernel_log});
    logs_.push_back(std::move(log));
  }
  for (auto& log : logs_) {
    log->clock.begin_at(log->begins.value_or(earliest.value_or(0)));
    advance(*log);
  }
}

LogMerge::~LogMerge() = default;

void LogMerge::advance(Log& log) {
  if (log.block.empty()) log.block = log.reader.next();
  if (log.block.empty()) {
    log.ended = true;
    return;
  }
  const auto newline = log.block.find('\n');
  MergedLine& line = log.line;
  line.text = log.block.substr(0, newline);
  log.block.remove_prefix(std::min(line.text.size() + 1, log.block.size()));
  if (line.text.ends_with('\r')) line.text.remove_suffix(1);
  ++line.number;
  line.metrics.reset();
  if (line.text.size() <= kLongestIterationLine) {
    if (pattern_ != nullptr) line.metrics = pattern_->parse(line.text);
    if (!line.metrics) line.metrics = diagnose::parse_iteration_line(line.text);
    if (line.metrics && !line.metrics->iteration) line.metrics.reset();
  }
  line.ms = log.clock.line(line.text, line.metrics ? &*line.metrics : nullptr);
}

bool LogMerge::next(MergedLine& line) {
  if (last_ != SIZE_MAX) advance(*logs_[last_]);
  std::size_t oldest = SIZE_MAX;
  for (std::size_t i = 0; i < logs_.size(); ++i) {
    if (logs_[i]->ended) continue;
    const bool first = oldest == SIZE_MAX || logs_[i]->line.ms < logs_[oldest]->line.ms;
    if (first || (i == last_ && logs_[i]->line.ms == logs_[oldest]->line.ms)) oldest = i;
  }
  last_ = oldest;
  if (oldest == SIZE_MAX) return false;
  line = logs_[oldest]->line;
  return true;
}

bool LogMerge::stamped() const {
  return std::any_of(logs_.begin(), logs_.end(),
                     [](const auto& log) { return log->clock.stamped(); });
}

std::vector<std::string> LogMerge::notes() const {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < logs_.size(); ++i) {
    for (const auto& note : logs_[i]->reader.notes()) all.push_back(names_[i].name + ": " + note);
    for (const auto& note : logs_[i]->clock.notes()) all.push_back(names_[i].name + ": " + note);
  }
  return all;
}

}  // namespace stoker::cli
