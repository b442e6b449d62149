// Packed files come through an Unpacker, plain ones through read(2). Blocks are cut at the last
// newline.
#include "diagnose/input/log_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/way.hpp"
#include "diagnose/input/journal_export.hpp"
#include "diagnose/input/unpack.hpp"
#include "diagnose/input/utf16.hpp"

namespace stoker::diagnose {

namespace {

constexpr std::size_t kPiece = 256u << 10;
constexpr std::size_t kLongestLineKept = 1u << 20;
constexpr off_t kHole = 1 << 20;  // smaller ones are read as the zeros that they are

Result<os::Fd> open_log(const std::string& path, Links links) {
  // Not blocking: opening a FIFO would wait for a writer that never comes.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  os::Fd fd;
  if (links == Links::Trusted) {
    STOKER_TRY(opened, os::open_on_way(path, kFlags));
    if (!opened) return fail(errno_error(ENOENT, "cannot open", path));
    fd = *std::move(opened);
  } else {
    fd.reset(::open(path.c_str(), kFlags));
    if (!fd) return fail(errno_error(errno, "cannot open", path));
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return fail(errno_error(errno, "cannot look at", path));
  if (!S_ISREG(status.st_mode))
    return fail("is no regular file", path, "pipe it into `stoker diagnose -`");
  return fd;
}

std::string_view trouble(Unpacker::End end) {
  switch (end) {
    case Unpacker::End::Truncated:
      return "truncated: the packed file ends too early; what is intact was read";
    case Unpacker::End::Damaged:
      return "unpacking stopped: damaged; what stands in front of it was read";
    case Unpacker::End::TooLarge:
      return "unpacking stopped: it needs more than 256 MiB of memory, or all files together more "
             "than 2 GiB; unpack it first, with xz -d or zstd -d --long=31";
    case Unpacker::End::NotYet:
    case Unpacker::End::Clean: break;
  }
  return {};
}

ssize_t read_again(int fd, char* to, std::size_t bytes) {
  while (true) {
    const ssize_t got = ::read(fd, to, bytes);
    if (got >= 0 || errno != EINTR) return got;
  }
}

}  // namespace

struct LogReader::Impl {
  os::Fd owned;
  int fd = -1;              // -1: there is only `piece`
  std::vector<char> piece;  // as stored
  std::size_t got = 0;      // bytes of `piece` that are not consumed yet
  bool begun = false, ended = false;

  std::unique_ptr<Unpacker> unpacker;
  std::vector<char> unpacked;
  std::unique_ptr<JournalExport> journal;
  std::optional<Utf16Text> utf16;
  std::string journal_lines, utf8;

  std::string_view pending;  // plain bytes that are not in `held` yet
  std::string held;
  std::size_t given = 0;  // of `held`, with the last answer
  std::uint64_t cut = 0, hole_bytes = 0;
  bool skipping = false;  // the rest of a line that was cut
  std::vector<std::string> notes;

  // Holes of a sparse file hold nothing, but may be terabytes.
  void leap_over_hole() {
    const off_t at = ::lseek(fd, 0, SEEK_CUR);
    if (at < 0) return;  // a pipe
    off_t data = ::lseek(fd, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) data = ::lseek(fd, 0, SEEK_END);
    if (data - at < kHole)
      ::lseek(fd, at, SEEK_SET);
    else
      hole_bytes += static_cast<std::uint64_t>(data - at);
  }

  // The next bytes of the file; empty: the end, or they cannot be read.
  std::string_view stored() {
    if (got > 0) return {piece.data(), std::exchange(got, 0)};
    if (fd >= 0 && !unpacker) leap_over_hole();
    const ssize_t more = fd < 0 ? 0 : read_again(fd, piece.data(), piece.size());
    if (more < 0) notes.push_back(errno_error(errno, "reading stopped", "").message());
    return {piece.data(), static_cast<std::size_t>(std::max<ssize_t>(more, 0))};
  }

  void begin() {
    begun = true;
    const Packing packing = packing_of({piece.data(), got});
    if (packing == Packing::None) return;
    unpacked.resize(kPiece);
    unpacker = Unpacker::make(packing, [this] { return stored(); });
  }

  // The next plain bytes; empty: the end.
  std::string_view plain() {
    if (ended) return {};
    if (unpacker) {
      const std::size_t more = unpacker->read(unpacked);
      ended = unpacker->end() != Unpacker::End::NotYet;
      if (const std::string_view why = ended ? trouble(unpacker->end()) : ""; !why.empty())
        notes.emplace_back(why);
      return {unpacked.data(), more};
    }
    const std::string_view bytes = stored();
    ended = bytes.empty();
    return bytes;
  }

  bool fetch() {
    const bool first = !begun;
    if (first) begin();
    std::string_view bytes = plain();
    if (first && (utf16 = Utf16Text::told_by(bytes))) notes.emplace_back("is UTF-16");
    if (utf16) {
      utf8.clear();
      const bool more = !bytes.empty();
      utf16->feed(bytes, utf8);
      bytes = utf8;
      if (more && bytes.empty()) return true;
    }
    if (const auto form = first ? journal_form(bytes) : JournalForm::None;
        form != JournalForm::None)
      journal = std::make_unique<JournalExport>(form);
    if (!journal) {
      pending = bytes;
      return !bytes.empty();
    }
    journal_lines.clear();
    journal->feed(bytes.empty() ? "\n\n" : bytes,
                  [this](std::string_view line) { journal_lines.append(line).push_back('\n'); });
    if (bytes.empty()) journal.reset();
    pending = journal_lines;
    return !bytes.empty() || !pending.empty();
  }

  std::string_view give(std::size_t bytes) {
    given = bytes;
    return std::string_view(held).substr(0, bytes);
  }

  std::string_view next() {
    held.erase(0, std::exchange(given, 0));
    while (true) {
      if (pending.empty()) {
        if (fetch()) continue;
        if (cut > 0) notes.emplace_back("lines over 1 MiB were cut");
        if (hole_bytes > 0)
          notes.push_back(fmt::format("{} bytes of nothing (holes) left out", hole_bytes));
        cut = hole_bytes = 0;
        return give(held.size());
      }
      if (skipping) {
        const auto newline = pending.find('\n');
        pending.remove_prefix(std::min(newline, pending.size() - 1) + 1);
        skipping = newline == std::string_view::npos;  // the cut line was given its newline already
        continue;
      }
      // Whole lines are given as they lie there; only what stands at the edge of a piece is copied.
      if (held.empty()) {
        const std::string_view window = pending.substr(0, kLongestLineKept);
        if (const auto last = window.rfind('\n'); last != std::string_view::npos) {
          pending.remove_prefix(last + 1);
          return window.substr(0, last + 1);
        }
      }
      const std::size_t line = std::min(pending.find('\n'), pending.size() - 1) + 1;
      const std::string_view part =
          pending.substr(0, std::min(line, kLongestLineKept - held.size()));
      held.append(part);
      pending.remove_prefix(part.size());
      if (held.back() == '\n') return give(held.size());
      if (held.size() < kLongestLineKept) continue;
      held += '\n';
      skipping = true;
      ++cut;
      return give(held.size());
    }
  }
};

LogReader::LogReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LogReader::LogReader(LogReader&&) noexcept = default;
LogReader& LogReader::operator=(LogReader&&) noexcept = default;
LogReader::~LogReader() = default;

Result<LogReader> LogReader::open(const std::string& path, std::vector<char> room, Links links) {
  auto impl = std::make_unique<Impl>();
  impl->piece = std::move(room);
  impl->fd = STDIN_FILENO;
  if (path != "-") {
    STOKER_TRY(opened, open_log(path, links));
    impl->owned = std::move(opened);
    impl->fd = impl->owned.get();
  }
  impl->piece.resize(kPiece);
  while (impl->got < 16) {  // enough to know the kind; a pipe may give less at once
    const ssize_t more =
        read_again(impl->fd, impl->piece.data() + impl->got, impl->piece.size() - impl->got);
    if (more < 0) return fail(errno_error(errno, "cannot read", path));
    if (more == 0) break;
    impl->got += static_cast<std::size_t>(more);
  }
  return LogReader(std::move(impl));
}

LogReader LogReader::of_text(std::string text) {
  auto impl = std::make_unique<Impl>();
  impl->begun = true;  // taken as it is
  impl->journal_lines = std::move(text);
  impl->ended = true;
  if (const auto form = journal_form(impl->journal_lines); form != JournalForm::None) {
    JournalExport whole(form);
    std::string lines;
    const auto take = [&](std::string_view line) { lines.append(line).push_back('\n'); };
    whole.feed(impl->journal_lines, take);
    whole.feed("\n\n", take);
    impl->journal_lines = std::move(lines);
  }
  impl->pending = impl->journal_lines;
  return LogReader(std::move(impl));
}

std::vector<char> LogReader::take_room() {
  return std::move(impl_->piece);
}

std::string_view LogReader::head() const {
  return {impl_->piece.data(), impl_->got};
}

bool LogReader::packed() const {
  return packing_of(head()) != Packing::None;
}

std::optional<std::string> LogReader::stored(std::size_t limit) {
  std::string all(head());
  while (all.size() <= limit) {
    const ssize_t more = read_again(impl_->fd, impl_->piece.data(), impl_->piece.size());
    if (more <= 0) return all;
    all.append(impl_->piece.data(), static_cast<std::size_t>(more));
  }
  return std::nullopt;
}

std::string_view LogReader::next() {
  return impl_->next();
}

const std::vector<std::string>& LogReader::notes() const {
  return impl_->notes;
}

}  // namespace stoker::diagnose
