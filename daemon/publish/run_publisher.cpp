// RunPublisher: append-only files whose own ends say how far they are.
#include "daemon/publish/run_publisher.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <functional>
#include <sys/stat.h>

#include "common/os/fd.hpp"
#include "common/os/own_files.hpp"
#include "common/os/room.hpp"
#include "core/publish/status.hpp"

namespace stoker::daemon {
namespace {

constexpr std::size_t kLongestLine = 4u << 20;
constexpr int kProofOfFull = 2, kProofOfRoom = 4;

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

// Who may enter the folder may read it.
Status append_events(const std::string& path, const std::string& lines) {
  if (!os::exists(path)) STOKER_TRY_STATUS(os::publish_file(path, "", os::Durability::Cached));
  return os::append_file(path, lines, os::Durability::Cached);
}

}  // namespace

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
  open_ = true;
  return ok();
}

Status RunPublisher::start_over(WallTime now) {
  const std::string events = directory_ + "/events.jsonl";
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
  const std::string aside = fmt::format("{}.lost-{}", events, seconds);
  if (::rename(events.c_str(), aside.c_str()) != 0)
    return fail(errno_error(errno, "cannot put aside", events));
  last_ = Sequence(0);
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
  STOKER_TRY_STATUS(tell(rows));
  if (!lines.empty()) STOKER_TRY_STATUS(append_events(directory_ + "/events.jsonl", lines));
  last_ = newest;
  open_ = true;
  return ok();
}

Status RunPublisher::tell(const std::vector<core::JournalRow>& rows) {
  if (run_.empty()) return ok();
  for (const core::JournalRow& row : rows) {
    history_->take(row);
    story_is_new_ = story_.tell(row) || story_is_new_;
  }
  return story_is_new_ ? write_chronicle() : ok();
}

Status RunPublisher::write_chronicle() {
  STOKER_TRY_STATUS(os::publish_file(directory_ + "/chronicle.md",
                                     story_.text(account_ ? &*account_ : nullptr),
                                     os::Durability::Cached));
  story_is_new_ = false;
  return ok();
}

// What an incident costs grows after its last row, while iterations are repeated.
Status RunPublisher::take_account(const wire::StatusDocument& status) {
  if (run_.empty() || !status.goodput) return ok();
  const bool same = account_ && account_->incidents == status.goodput->incidents;
  account_ = status.goodput;
  return same || story_.last_row() == Sequence(0) ? ok() : write_chronicle();
}

Status RunPublisher::write_status(const wire::StatusDocument& status) {
  auto written = os::publish_file(directory_ + "/status.json", to_json_text(status) + "\n",
                                  os::Durability::Cached);
  if (written) (void)take_account(status);  // without room now: with the next incident's rows
  const bool no_room = !written && os::is_no_room(written.error());
  without_room_ = no_room ? without_room_ + 1 : 0;
  with_room_ = written ? with_room_ + 1 : 0;
  const auto& known = status.conditions;
  const bool told = std::find(known.begin(), known.end(), "disk_full") != known.end();
  room_news_.reset();
  if (without_room_ >= kProofOfFull && !told)
    room_news_ = core::DiskFull{directory_, written.error().message(), true};
  if (with_room_ >= kProofOfRoom && told) room_news_ = core::DiskFull{directory_, "", false};
  return written;
}

}  // namespace stoker::daemon
