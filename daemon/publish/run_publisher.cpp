// RunPublisher: append-only files whose own ends say how far they are.
#include "daemon/publish/run_publisher.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <fmt/format.h>
#include <functional>
#include <sys/stat.h>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "core/status.hpp"

namespace stoker::daemon {
namespace {

constexpr std::size_t kLongestLine = 4u << 20;
constexpr std::string_view kChronicleMark = "<!-- row ";

// Opens `path`, cuts a torn last line off and gives the last whole line that `wanted` accepts
// (searched from the end, at most kLongestLine back).
Result<std::string> last_line(const std::string& path,
                              const std::function<bool(std::string_view)>& wanted) {
  const os::Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd && errno == ENOENT) return std::string();
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return fail(errno_error(fd ? EINVAL : errno, "cannot open", path));
  const auto size = static_cast<std::size_t>(info.st_size);
  const std::size_t from = size > kLongestLine ? size - kLongestLine : 0;
  std::string tail(size - from, '\0');
  if (::pread(fd.get(), tail.data(), tail.size(), static_cast<off_t>(from)) !=
      static_cast<ssize_t>(tail.size()))
    return fail(errno_error(errno, "cannot read", path));
  const auto end = tail.rfind('\n');
  const std::size_t whole = end == std::string::npos ? 0 : end + 1;
  if (whole < tail.size() && ::ftruncate(fd.get(), static_cast<off_t>(from + whole)) != 0)
    return fail(errno_error(errno, "cannot cut a torn line off", path));
  tail.resize(whole);
  while (!tail.empty()) {
    tail.pop_back();
    const auto before = tail.rfind('\n');
    const auto start = before == std::string::npos ? 0 : before + 1;
    if (wanted(std::string_view(tail).substr(start))) return tail.substr(start);
    tail.resize(start);
  }
  return std::string();
}

Sequence sequence_of_mark(std::string_view line) {
  std::uint64_t number = 0;
  const auto at = line.rfind(kChronicleMark);
  if (at == std::string_view::npos) return Sequence(0);
  const auto digits = line.substr(at + kChronicleMark.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return Sequence(number);
}

}  // namespace

std::string chronicle_line(const core::JournalRow& row) {
  const bool moved = row.decision.from != row.decision.to;
  if (row.decision.reason.empty() || (!moved && !row.decision.rejected)) return {};
  std::string reason = row.decision.reason;
  std::replace_if(
      reason.begin(), reason.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; },
      ' ');
  return fmt::format("* {} **{}** {} {}{} -->\n", format_rfc3339(row.event.wall),
                     row.decision.rejected ? "rejected" : row.decision.to, reason, kChronicleMark,
                     row.seq.value);
}

Status RunPublisher::open() {
  open_ = false;
  const std::string events = directory_ + "/events.jsonl";
  last_ = Sequence(0);
  const auto newest = last_line(events, [&](std::string_view text) {
    const auto event = from_json_text<wire::PublishedEvent>(text, events);
    if (event) last_ = Sequence(event->seq);
    return event.has_value();
  });
  if (!newest) return fail(newest.error());
  STOKER_TRY(entry, last_line(directory_ + "/chronicle.md", [](std::string_view text) {
               return sequence_of_mark(text).value > 0;
             }));
  last_chronicle_ = sequence_of_mark(entry);
  open_ = true;
  return ok();
}

Status RunPublisher::append(const std::vector<core::JournalRow>& rows) {
  if (!open_) STOKER_TRY_STATUS(open());
  open_ = false;  // until all of it is written
  std::string lines;
  Sequence newest = last_;
  for (const core::JournalRow& row : rows) {
    if (row.seq <= newest) continue;
    newest = row.seq;
    lines += to_json_text(core::published_event(row)) + "\n";
  }
  STOKER_TRY_STATUS(append_chronicle(rows));
  if (!lines.empty())
    STOKER_TRY_STATUS(os::append_file(directory_ + "/events.jsonl", lines, os::Durability::Cached));
  last_ = newest;
  open_ = true;
  return ok();
}

Status RunPublisher::append_chronicle(const std::vector<core::JournalRow>& rows) {
  std::string lines;
  Sequence newest = last_chronicle_;
  for (const core::JournalRow& row : rows) {
    if (row.seq <= newest) continue;
    const std::string line = chronicle_line(row);
    if (line.empty()) continue;
    newest = row.seq;
    lines += line;
  }
  if (lines.empty()) return ok();
  STOKER_TRY_STATUS(os::append_file(directory_ + "/chronicle.md", lines, os::Durability::Cached));
  last_chronicle_ = newest;
  return ok();
}

Status RunPublisher::write_status(const wire::StatusDocument& status) const {
  return os::replace_file(directory_ + "/status.json", to_json_text(status) + "\n",
                          os::Durability::Cached);
}

}  // namespace stoker::daemon
