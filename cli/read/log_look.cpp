#include "cli/read/log_look.hpp"

#include <sys/stat.h>

#include "cli/read/line_file.hpp"
#include "common/os/patterns.hpp"
#include "diagnose/input/parse_file.hpp"
#include "diagnose/parse/iteration_line.hpp"

namespace stoker::cli {
namespace {

constexpr std::uint64_t kLines = 20'000;
constexpr std::size_t kFiles = 10'000;

// The file that was written last; "" = none of the patterns stands for one.
std::string newest_file(const std::vector<std::string>& patterns, std::string& error) {
  std::string newest;
  timespec when{};
  std::size_t seen = 0;
  for (const std::string& pattern : patterns) {
    const auto paths = os::find_matching_paths(pattern);
    if (!paths) error = paths.error().message();
    for (const std::string& path : paths.value_or(std::vector<std::string>{})) {
      struct stat s {};
      if (++seen > kFiles || ::stat(path.c_str(), &s) != 0 || !S_ISREG(s.st_mode)) continue;
      const bool later = s.st_mtim.tv_sec > when.tv_sec ||
                         (s.st_mtim.tv_sec == when.tv_sec && s.st_mtim.tv_nsec > when.tv_nsec);
      if (newest.empty() || later) newest = path, when = s.st_mtim;
    }
  }
  return newest;
}

// The user's own expressions; empty: none given, or `error` says what is wrong with them.
std::optional<diagnose::UserPattern> own_pattern(const std::map<std::string, std::string>& progress,
                                                 std::string& error) {
  const auto iteration = progress.find("iteration"), loss = progress.find("loss");
  if (iteration == progress.end()) return std::nullopt;
  auto pattern = diagnose::UserPattern::compile(
      {iteration->second, loss == progress.end() ? "" : loss->second});
  if (pattern) return std::move(*pattern);
  error = pattern.error().message();
  return std::nullopt;
}

}  // namespace

std::optional<LogLook> look_at_newest_log(const std::vector<std::string>& patterns,
                                          const std::map<std::string, std::string>& progress) {
  LogLook look;
  look.path = newest_file(patterns, look.error);
  if (look.path.empty() && look.error.empty()) return std::nullopt;
  if (look.path.empty()) return look;
  const auto own = own_pattern(progress, look.error);
  std::string form;
  diagnose::MetricsReader reader(
      [&](const diagnose::FoundMetrics& found) {
        const auto* metrics = std::get_if<diagnose::IterationMetrics>(&found.found);
        if (metrics == nullptr || !metrics->iteration) return;
        look.last = *metrics;
        look.form = form;
      },
      own ? &*own : nullptr);
  const auto file = LineFile::open(look.path);
  const auto start = file ? file->start_of_last(kLines) : Result<std::uint64_t>(fail(file.error()));
  if (!start) return look.error = start.error().message(), look;
  const auto read = file->forward(*start, true, [&](std::string_view line) {
    if (own && own->parse(line)) {
      form = "watch.progress";
    } else if (const auto known = diagnose::iteration_form(line); !known.empty()) {
      form = known;
    }
    reader.line(line);
    return true;
  });
  reader.finish();
  if (!read) look.error = read.error().message();
  if (look.last && look.form.empty()) look.form = "records over several lines";
  return look;
}

}  // namespace stoker::cli
