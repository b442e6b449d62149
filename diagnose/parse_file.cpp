// Reads in pieces of 256 KiB; keeps only the unfinished last line.
#include "diagnose/parse_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <vector>

#include "common/os/fd.hpp"
#include "diagnose/iteration_line.hpp"
#include "diagnose/line_scan.hpp"
#include "diagnose/progress_forms.hpp"

namespace stoker::diagnose {

namespace {
constexpr std::size_t kPiece = 256u << 10;
constexpr std::size_t kLineCap = 1u << 20;
constexpr int kMostJoined = 3;

// Looks like the rest of a wrapped record: fields between bars, no record of its own.
bool continues_record(std::string_view text) {
  return text.find('|') != std::string_view::npos && text.find(':') != std::string_view::npos &&
         find_word(text, "iteration ") == std::string_view::npos &&
         !trim_left(text).starts_with("time (ms)");
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

Result<std::vector<std::string>> parse_file(const std::string& path,
                                            const std::function<void(const FoundMetrics&)>& take,
                                            const UserPattern* pattern) {
  constexpr std::size_t kShownTemplates = 3;
  bool found = false;
  const auto note_and_take = [&](const FoundMetrics& m) {
    found = true;
    take(m);
  };
  os::Fd owned;
  int fd = STDIN_FILENO;
  if (path != "-") {
    owned.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!owned) return fail(errno_error(errno, "cannot open", path));
    fd = owned.get();
  }
  MetricsReader reader(note_and_take, pattern);
  std::string held;
  std::vector<char> piece(kPiece);
  while (true) {
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(errno_error(errno, "cannot read", path));
    if (got == 0) break;
    std::string_view rest(piece.data(), static_cast<std::size_t>(got));
    while (!rest.empty()) {
      const auto newline = rest.find('\n');
      if (newline == std::string_view::npos) {
        held.append(rest.substr(0, kLineCap - std::min(kLineCap, held.size())));
        break;
      }
      const std::string_view part = rest.substr(0, newline);
      rest.remove_prefix(newline + 1);
      if (held.empty()) {
        reader.line(part);
      } else {
        held.append(part.substr(0, kLineCap - std::min(kLineCap, held.size())));
        reader.line(held);
        held.clear();
      }
    }
  }
  if (!held.empty()) reader.line(held);
  reader.finish();
  if (found) return std::vector<std::string>{};
  return reader.templates().frequent(kShownTemplates);
}

}  // namespace stoker::diagnose
