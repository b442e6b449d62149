// Adapter to RE2.
#include "diagnose/parse/user_pattern.hpp"

#include <re2/re2.h>

#include "diagnose/input/line_scan.hpp"

namespace stoker::diagnose {

struct UserPattern::Compiled {
  std::unique_ptr<re2::RE2> iteration, loss;
};

namespace {
Result<std::unique_ptr<re2::RE2>> compile_one(const std::string& text, const std::string& key) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_encoding(re2::RE2::Options::EncodingLatin1);  // logs are bytes
  options.set_max_mem(8 << 20);
  auto compiled = std::make_unique<re2::RE2>(text, options);
  if (!compiled->ok())
    return fail("not a regular expression: " + compiled->error(), "watch.progress." + key);
  if (compiled->NumberOfCapturingGroups() < 1)
    return fail("has no capture group", "watch.progress." + key,
                "put the number in parentheses, as in 'step=(\\d+)'");
  return compiled;
}

std::optional<std::string_view> captured(const re2::RE2& expression, std::string_view line) {
  re2::StringPiece group;
  if (!re2::RE2::PartialMatch(re2::StringPiece(line.data(), line.size()), expression, &group))
    return std::nullopt;
  return std::string_view(group.data(), group.size());
}
}  // namespace

UserPattern::UserPattern(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
UserPattern::UserPattern(UserPattern&&) noexcept = default;
UserPattern& UserPattern::operator=(UserPattern&&) noexcept = default;
UserPattern::~UserPattern() = default;

Result<UserPattern> UserPattern::compile(const ProgressPattern& pattern) {
  auto compiled = std::make_unique<Compiled>();
  STOKER_TRY(iteration, compile_one(pattern.iteration, "iteration"));
  compiled->iteration = std::move(iteration);
  if (!pattern.loss.empty()) {
    STOKER_TRY(loss, compile_one(pattern.loss, "loss"));
    compiled->loss = std::move(loss);
  }
  return UserPattern(std::move(compiled));
}

std::optional<IterationMetrics> UserPattern::parse(std::string_view line) const {
  line = line.substr(0, kLongestLine);
  const auto iteration = captured(*compiled_->iteration, line);
  if (!iteration) return std::nullopt;
  IterationMetrics metrics;
  std::size_t length = 0;
  metrics.iteration = scan_count(*iteration, length);
  if (!metrics.iteration) return std::nullopt;
  if (compiled_->loss)
    if (const auto loss = captured(*compiled_->loss, line))
      if (const auto number = scan_number(*loss)) metrics.loss = number->value;
  return metrics;
}

}  // namespace stoker::diagnose
