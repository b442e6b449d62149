// Records that were wrapped are put together again before they are parsed.
#include "diagnose/input/parse_file.hpp"

#include <algorithm>

#include "diagnose/input/line_scan.hpp"
#include "diagnose/input/log_reader.hpp"
#include "diagnose/parse/iteration_line.hpp"
#include "diagnose/parse/progress_forms.hpp"

namespace stoker::diagnose {

namespace {
constexpr int kMostJoined = 3;

// Looks like the rest of a wrapped record: fields between bars, no record of its own.
bool continues_record(std::string_view text) {
  return text.find('|') != std::string_view::npos && text.find(':') != std::string_view::npos &&
         find_word(text, "iteration ") == std::string_view::npos &&
         find_word(text, "iteration:") == std::string_view::npos &&
         text.find("%|") == std::string_view::npos && !trim_left(text).starts_with("time (ms)");
}
}  // namespace

void MetricsReader::line(std::string_view text) {
  ++number_;
  text = text.substr(0, kLongestLine);
  if (composer_) {
    if (const std::string field = composer_field(text); !field.empty()) {
      if (open_record_.size() < kLongestLine) open_record_ += field;
      return;
    }
    settle();
  }
  if (std::string head = composer_head(text); !head.empty()) {
    settle();
    open_record_ = std::move(head);
    open_since_ = number_;
    composer_ = true;
    return;
  }
  if (!open_record_.empty()) {
    if (open_lines_ < kMostJoined && continues_record(text)) {
      open_record_ += ' ';
      open_record_ += trim(text);
      ++open_lines_;
      if (!is_unfinished_record(open_record_)) settle();
      return;
    }
    settle();
  }
  if (text.find('|') != std::string_view::npos && is_unfinished_record(text)) {
    open_record_ = trim(text);
    open_since_ = number_;
    open_lines_ = 1;
    return;
  }
  examine(number_, text);
}

void MetricsReader::finish() {
  settle();
}

void MetricsReader::settle() {
  if (open_record_.empty()) return;
  composer_ = false;
  examine(open_since_, open_record_);
  open_record_.clear();
}

void MetricsReader::examine(std::uint64_t number, std::string_view text) {
  auto metrics = pattern_ != nullptr ? pattern_->parse(text) : std::nullopt;
  if (!metrics) metrics = parse_iteration_line(text);
  if (metrics) {
    found_any_ = true;
    take_({number, std::move(*metrics)});
  } else if (auto validation = parse_validation_line(text)) {
    found_any_ = true;
    take_({number, std::move(*validation)});
  } else if (!found_any_) {
    templates_.count(text);
  }
}

Result<ParsedFile> parse_file(const std::string& path,
                              const std::function<void(const FoundMetrics&)>& take,
                              const UserPattern* pattern) {
  constexpr std::size_t kShownTemplates = 3;
  ParsedFile parsed;
  bool found = false;
  const auto note_and_take = [&](const FoundMetrics& m) {
    found = true;
    take(m);
  };
  STOKER_TRY(log, LogReader::open(path));
  MetricsReader reader(note_and_take, pattern);
  for (std::string_view block = log.next(); !block.empty(); block = log.next())
    while (!block.empty()) {
      const auto length = std::min(block.find('\n'), block.size());
      reader.line(block.substr(0, length));
      block.remove_prefix(std::min(length + 1, block.size()));
    }
  reader.finish();
  parsed.notes = log.notes();
  if (!found) parsed.templates = reader.templates().frequent(kShownTemplates);
  return parsed;
}

}  // namespace stoker::diagnose
