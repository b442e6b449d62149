// Known formats or the user's patterns.
#include "diagnose/parse/progress_reader.hpp"

namespace stoker::diagnose {
namespace {
constexpr std::size_t kIterationLineLimit = 16u << 10;  // no iteration line is longer
}

Result<ProgressReader> ProgressReader::make(const std::map<std::string, std::string>& patterns) {
  ProgressReader reader;
  if (patterns.empty()) return reader;
  const auto text = [&patterns](const char* name) {
    const auto found = patterns.find(name);
    return found == patterns.end() ? std::string() : found->second;
  };
  STOKER_TRY(compiled, UserPattern::compile({text("iteration"), text("loss")}));
  reader.user_ = std::move(compiled);
  return reader;
}

std::optional<diagnose::IterationMetrics> ProgressReader::read(std::string_view line) const {
  if (line.size() > kIterationLineLimit) return std::nullopt;
  // A training's report of a resume repeats old numbers: that is no progress.
  for (const std::string_view own : {"stoker-event ", "resume audit: "})
    if (line.find(own) != std::string_view::npos) return std::nullopt;
  auto metrics = user_ ? user_->parse(line) : parse_iteration_line(line);
  if (!metrics || !metrics->iteration) return std::nullopt;
  return metrics;
}

}  // namespace stoker::diagnose
