// LineTail: which file to read (resume, go_on), then its lines (read_file).
#include "watch/tail.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <unistd.h>
#include <utility>

namespace stoker::watch {

namespace {
constexpr std::size_t kChunk = 256u << 10;
constexpr std::size_t kBefore = 256;
constexpr std::size_t kMostSuccessors = 16;

// The file begins with what was read when the cursor was made.
bool is_of(const core::Cursor& cursor, const OpenedFile& file) {
  if (file.size < cursor.offset) return false;
  const auto head = read_at(file.fd.get(), 0, std::min<std::uint64_t>(cursor.offset, kHeadBytes));
  return head && head_hash(*head, cursor.offset) == cursor.head_hash;
}
}  // namespace

LineTail::LineTail(std::string path, TailOptions options, std::optional<core::Cursor> cursor)
    : path_(std::move(path)), options_(options), waiting_(std::move(cursor)) {
  STOKER_CHECK(options_.longest_line > 0 && options_.bytes_a_poll > 0, "tail limits");
}

core::Cursor LineTail::cursor() const {
  if (waiting_) return *waiting_;
  return {path_, file_.inode, head_hash(head_, offset_), offset_, line_, {}};
}

TailRead LineTail::poll(Instant now) {
  TailRead out;
  auto opened = open_regular(path_);
  if (!opened) {
    out.error = opened.error();
  } else if (*opened && options_.of_system && !is_of_system(**opened)) {
    out.error =
        Error{fmt::format("belongs to uid {}: it counts only where it is root's, yours or a "
                          "system user's",
                          (**opened).owner),
              path_, "name kernel logs that other users cannot make"};
  } else if (*opened) {
    if (file_.fd)
      go_on(std::move(**opened), out);
    else
      resume(std::move(**opened), out);
  } else {
    out.missing = true;
    resume_renamed();
    read_mtime_ = -1;  // a renamed file without a successor may still grow
  }
  if (file_.fd) read_file(out, now);
  return out;
}

// The first look at the path by this process.
void LineTail::resume(OpenedFile file, TailRead& out) {
  if (!waiting_ || waiting_->offset == 0) {
    const std::uint64_t at = !waiting_ && options_.from_end ? file.size : 0;
    waiting_.reset();
    return start_file(std::move(file), at, 0);
  }
  const core::Cursor cursor = *waiting_;
  const auto is_it = [&cursor](const OpenedFile& f) { return is_of(cursor, f); };
  waiting_.reset();
  if (file.inode == cursor.inode && is_it(file))
    return start_file(std::move(file), cursor.offset, cursor.line);
  auto renamed = find_sibling(path_, [&](const OpenedFile& f) {
    return f.inode == cursor.inode && f.inode != file.inode && is_it(f);
  });
  if (renamed) return start_rotated(std::move(*renamed), std::move(file), cursor);
  if (file.inode != cursor.inode && is_it(file))  // moved between servers: same content
    return start_file(std::move(file), cursor.offset, cursor.line);
  out.restarted = true;
  // The copy of a truncated file: of fewer bytes another log could have the same.
  auto copy =
      cursor.offset < kHeadBytes ? std::nullopt : find_sibling(path_, [&](const OpenedFile& f) {
        return is_of_same(f, file) && is_it(f);
      });
  if (copy) {
    start_rotated(std::move(*copy), std::move(file), cursor);
    is_copy_ = true;
  } else {
    start_file(std::move(file), 0, 0);
  }
}

// Nothing is at the path at the first look: what was read there may lie beside it, renamed, and
// still grow.
void LineTail::resume_renamed() {
  if (std::exchange(looked_beside_, true) || file_.fd || !waiting_ || waiting_->offset == 0) return;
  const core::Cursor cursor = *waiting_;
  auto renamed = find_sibling(
      path_, [&](const OpenedFile& f) { return f.inode == cursor.inode && is_of(cursor, f); });
  if (!renamed) return;
  waiting_.reset();
  start_file(std::move(*renamed), cursor.offset, cursor.line);
}

// A file that a log rotation put beside the path, then what was put there since, then `now`.
void LineTail::start_rotated(OpenedFile file, OpenedFile now, const core::Cursor& cursor) {
  for (OpenedFile& between : rotated_since(path_, file, now, kMostSuccessors - 1))
    successors_.push_back(std::move(between));
  successors_.push_back(std::move(now));
  start_file(std::move(file), cursor.offset, cursor.line);
}

// A later look: is the path still the file that we read?
void LineTail::go_on(OpenedFile file, TailRead& out) {
  if (!successors_.empty()) {
    OpenedFile& newest = successors_.back();
    if (newest.inode == file.inode)
      newest = std::move(file);
    else if (file.inode != file_.inode && successors_.size() < kMostSuccessors)
      successors_.push_back(std::move(file));
    return;
  }
  if (file.inode != file_.inode) {
    quiet_since_.reset();
    successors_.push_back(std::move(file));
    return;
  }
  if (file.size == read_size_ && file.mtime == read_mtime_) {
    file_ = std::move(file);
    return;
  }
  if (!is_another_content(file)) {
    file_ = std::move(file);
    return;
  }
  out.restarted = true;
  if (!take_copy(file)) start_file(std::move(file), 0, 0);
}

bool LineTail::is_another_content(const OpenedFile& file) const {
  if (file.size < offset_) return true;
  return !ends_with_at(file.fd.get(), head_.size(), head_) ||
         !ends_with_at(file.fd.get(), offset_, before_);
}

// After a truncation: the copy that copytruncate made just before holds what we have not read.
bool LineTail::take_copy(OpenedFile& current) {
  if (before_.empty()) return false;
  auto copy = find_sibling(path_, [&](const OpenedFile& f) {
    return f.inode != current.inode && is_of_same(f, current) && !is_another_content(f);
  });
  if (!copy) return false;
  file_ = std::move(*copy);
  is_copy_ = true;
  read_mtime_ = -1;
  successors_.push_back(std::move(current));
  return true;
}

void LineTail::start_file(OpenedFile file, std::uint64_t offset, std::uint64_t line) {
  file_ = std::move(file);
  offset_ = offset;
  line_ = line;
  is_copy_ = false;
  read_mtime_ = -1;
  quiet_since_.reset();
  hole_since_.reset();
  const int fd = file_.fd.get();
  head_ = read_at(fd, 0, std::min<std::uint64_t>(offset, kHeadBytes)).value_or(std::string{});
  const auto length = std::min<std::uint64_t>(offset, kBefore);
  before_ = read_at(fd, offset - length, length).value_or(std::string{});
  after_cr_ = !before_.empty() && before_.back() == '\r';
}

void LineTail::read_file(TailRead& out, Instant now) {
  std::size_t budget = options_.bytes_a_poll;
  do {
    if (file_.size == read_size_ && file_.mtime == read_mtime_ && successors_.empty()) return;
    while (read_piece(out, now, budget)) {
    }
    if (out.more || out.error || hole_since_) return;
    read_size_ = file_.size;
    read_mtime_ = file_.mtime;
  } while (switch_to_successor(out, now));
}

// Reads from the offset on; true: there may be more.
bool LineTail::read_piece(TailRead& out, Instant now, std::size_t& budget) {
  if (budget == 0) {
    out.more = true;
    return false;
  }
  std::size_t size = std::min(kChunk, options_.longest_line + 1);
  while (true) {
    const auto bytes = read_at(file_.fd.get(), offset_, size);
    if (!bytes) {
      out.error = bytes.error();
      out.error->object = path_;
      return false;
    }
    const bool at_end = bytes->size() < size;
    const std::size_t consumed = take_lines(*bytes, out, now);
    budget -= std::min(budget, consumed);
    if (consumed > 0) {
      quiet_since_ = now;
      return true;
    }
    if (at_end || hole_since_) return false;
    if (bytes->find_first_not_of('\0') == std::string::npos) {
      budget -= std::min(budget, bytes->size());
      leap_over_hole(bytes->size(), out);
      return true;
    }
    if (size > options_.longest_line) {
      hand_out(*bytes, {options_.longest_line, options_.longest_line, false}, true, out);
      return true;
    }
    size = std::min(size * 2, options_.longest_line + 1);
  }
}

// All whole lines of `bytes`; returns how many bytes they took.
std::size_t LineTail::take_lines(std::string_view bytes, TailRead& out, Instant now) {
  std::size_t taken = 0;
  while (taken < bytes.size()) {
    const std::string_view rest = bytes.substr(taken);
    if (after_cr_ && rest.front() == '\n') {  // the second half of "\r\n"
      after_cr_ = false;
      ++line_;
      pass(rest.substr(0, 1));
      ++taken;
      continue;
    }
    auto end = rest.find('\n');
    Piece piece{end, end + 1, true};
    const auto carriage = rest.substr(0, end).find('\r');
    if (carriage != std::string_view::npos) piece = {carriage, carriage + 1, false};
    if (piece.length == std::string_view::npos || piece.length > options_.longest_line) break;
    if (std::memchr(rest.data(), '\0', piece.length) != nullptr && waits_for_hole(now)) break;
    hand_out(rest, piece, false, out);
    taken += piece.end;
  }
  return taken;
}

// On a network file system zeros may be data that has not arrived yet.
bool LineTail::waits_for_hole(Instant now) {
  if (options_.hole_grace <= 0s) return false;
  if (!hole_since_) hole_since_ = now;
  return now - *hole_since_ < options_.hole_grace;
}

void LineTail::hand_out(std::string_view bytes, const Piece& piece, bool split, TailRead& out) {
  const std::string_view text = bytes.substr(0, piece.length);
  TailLine line;
  line.text = text;
  const auto zeros = std::erase(line.text, '\0');
  out.hole_bytes += zeros;
  line.number = line_ + 1;
  line.split = split;
  pass(bytes.substr(0, piece.end));
  if (piece.newline) ++line_;
  after_cr_ = !piece.newline && !split;
  hole_since_.reset();
  if (line.text.empty() && (zeros > 0 || !piece.newline)) return;
  line.cursor = {path_, file_.inode, head_hash(head_, offset_), offset_, line_, {}};
  out.lines.push_back(std::move(line));
}

// On to behind these bytes. What identifies the file is kept of the very bytes that were handed
// out: read a second time, a file that grows, or is truncated, says something else.
void LineTail::pass(std::string_view bytes) {
  offset_ += bytes.size();
  head_.append(bytes.substr(0, kHeadBytes - head_.size()));
  before_.append(bytes.substr(bytes.size() - std::min(bytes.size(), kBefore)));
  if (before_.size() > kBefore) before_.erase(0, before_.size() - kBefore);
}

void LineTail::leap_over_hole(std::size_t zeros, TailRead& out) {
  std::uint64_t to = offset_ + zeros;
  const off_t data = ::lseek(file_.fd.get(), static_cast<off_t>(offset_), SEEK_DATA);
  if (data > 0) to = std::max(to, static_cast<std::uint64_t>(data));
  if (data < 0 && errno == ENXIO) to = std::max(to, file_.size);  // nothing but a hole to its end
  out.hole_bytes += to - offset_;
  head_.resize(std::min<std::uint64_t>(to, kHeadBytes));
  offset_ = to;
  before_.clear();
}

// At the end of a file that lost its path: after the grace its last, unended line, then the next
// file.
bool LineTail::switch_to_successor(TailRead& out, Instant now) {
  if (successors_.empty()) return false;
  if (!is_copy_) {
    if (!quiet_since_) quiet_since_ = now;
    if (now - *quiet_since_ < options_.rotate_grace) return false;
  }
  const auto rest = read_at(file_.fd.get(), offset_, options_.longest_line);
  if (rest && !rest->empty()) hand_out(*rest, {rest->size(), rest->size(), false}, false, out);
  OpenedFile next = std::move(successors_.front());
  successors_.pop_front();
  start_file(std::move(next), 0, 0);
  return true;
}

}  // namespace stoker::watch
