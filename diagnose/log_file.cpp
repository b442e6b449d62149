// libarchive undoes the compression ("raw" format with all its filters); plain files come through
// read(2). Blocks are cut at the last newline.
#include "diagnose/log_file.hpp"

#include <algorithm>
#include <archive.h>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "common/os/fd.hpp"
#include "diagnose/flight_recorder.hpp"
#include "diagnose/journal_export.hpp"
#include "diagnose/line_origin.hpp"
#include "diagnose/pickle.hpp"

namespace stoker::diagnose {

namespace {

constexpr std::size_t kPiece = 256u << 10;
constexpr std::size_t kLongestLineKept = 1u << 20;

// Collects pieces into blocks of whole lines.
class Blocks {
 public:
  explicit Blocks(LogScanner& scanner) : scanner_(scanner) {}

  void piece(std::string_view bytes) {
    if (!decided_) decide(bytes);
    if (journal_) return lines_of_journal(bytes);
    add(bytes);
  }
  void finish() {
    if (journal_) {
      lines_of_journal("\n\n");
      if (cut_ > 0) scanner_.note("lines over 1 MiB were cut");
    }
    if (!held_.empty()) scanner_.block(held_);
    held_.clear();
    if (!journal_ && cut_ > 0) scanner_.note("lines over 1 MiB were cut");
  }

 private:
  void decide(std::string_view bytes) {
    decided_ = true;
    if (is_journal_export(bytes)) journal_ = std::make_unique<JournalExport>();
  }
  void lines_of_journal(std::string_view bytes) {
    journal_->feed(bytes, [this](std::string_view line) {
      add(line);
      add("\n");
    });
  }
  // Whole lines go on as they lie there; only what stands at the edge of a piece is copied.
  void add(std::string_view bytes) {
    if (!held_.empty() || skipping_) bytes.remove_prefix(finish_line(bytes));
    if (bytes.empty()) return;
    const auto last = bytes.rfind('\n');
    if (last != std::string_view::npos) {
      scanner_.block(bytes.substr(0, last + 1));
      bytes.remove_prefix(last + 1);
    }
    hold(bytes);
  }
  // How much of `bytes` belongs to the line that began before them.
  std::size_t finish_line(std::string_view bytes) {
    const auto newline = bytes.find('\n');
    const std::size_t length = newline == std::string_view::npos ? bytes.size() : newline + 1;
    if (!skipping_) hold(bytes.substr(0, length));
    if (newline == std::string_view::npos) return length;
    if (!skipping_) scanner_.block(held_);
    held_.clear();
    skipping_ = false;  // of a line that was cut the scanner has had its newline
    return length;
  }
  // A line that fills the room is cut.
  void hold(std::string_view part) {
    if (held_.size() + part.size() < kLongestLineKept || part.empty() ||
        (part.back() == '\n' && held_.size() + part.size() == kLongestLineKept)) {
      held_ += part;
      return;
    }
    held_ += part.substr(0, kLongestLineKept - held_.size());
    held_ += '\n';
    scanner_.block(held_);
    held_.clear();
    skipping_ = true;
    ++cut_;
  }

  LogScanner& scanner_;
  std::unique_ptr<JournalExport> journal_;
  std::string held_;
  std::uint64_t cut_ = 0;
  bool decided_ = false, skipping_ = false;
};

bool is_compressed(std::string_view head) {
  using namespace std::string_view_literals;
  static constexpr std::array kMagics{"\x1f\x8b"sv, "\x28\xb5\x2f\xfd"sv,
                                      "\xfd"
                                      "7zXZ"sv,
                                      "BZh"sv, "\x04\x22\x4d\x18"sv};
  return std::any_of(kMagics.begin(), kMagics.end(),
                     [&](std::string_view magic) { return head.starts_with(magic); });
}

void read_plain(int fd, std::vector<char>& piece, std::size_t got, Blocks& blocks,
                LogScanner& scanner) {
  blocks.piece({piece.data(), got});
  while (true) {
    const ssize_t more = ::read(fd, piece.data(), piece.size());
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) scanner.note(errno_error(errno, "reading stopped", "").message());
    if (more <= 0) return;
    blocks.piece({piece.data(), static_cast<std::size_t>(more)});
  }
}

struct CompressedSource {
  int fd;
  std::vector<char> piece;
  std::size_t ready;  // bytes of `piece` that libarchive has not seen yet
};

la_ssize_t give_compressed(archive*, void* client, const void** buffer) {
  auto& source = *static_cast<CompressedSource*>(client);
  *buffer = source.piece.data();
  if (source.ready > 0) return static_cast<la_ssize_t>(std::exchange(source.ready, 0));
  while (true) {
    const ssize_t got = ::read(source.fd, source.piece.data(), source.piece.size());
    if (got < 0 && errno == EINTR) continue;
    return static_cast<la_ssize_t>(got);
  }
}

void read_compressed(int fd, std::vector<char> head, std::size_t got, Blocks& blocks,
                     LogScanner& scanner) {
  const std::unique_ptr<archive, int (*)(archive*)> reader(archive_read_new(), archive_read_free);
  CompressedSource source{fd, std::move(head), got};
  archive_read_support_filter_all(reader.get());
  archive_read_support_format_raw(reader.get());
  archive_entry* entry = nullptr;
  const auto trouble = [&] {
    const char* why = archive_error_string(reader.get());
    scanner.note(std::string("unpacking stopped: ") + (why != nullptr ? why : "damaged"));
  };
  if (archive_read_open(reader.get(), &source, nullptr, give_compressed, nullptr) != ARCHIVE_OK ||
      archive_read_next_header(reader.get(), &entry) != ARCHIVE_OK)
    return trouble();
  if (archive_filter_count(reader.get()) < 2)  // its head is there, and no more
    return scanner.note("unpacking stopped: damaged");
  std::vector<char> piece(kPiece);
  while (true) {
    const auto more = archive_read_data(reader.get(), piece.data(), piece.size());
    if (more < 0) return trouble();
    if (more == 0) return;
    blocks.piece({piece.data(), static_cast<std::size_t>(more)});
  }
}

constexpr std::size_t kLargestDump = 64u << 20, kLargestStacks = 1u << 20;

// The rest of a small file behind its head; empty: it is larger than `limit`.
std::optional<std::string> read_whole(int fd, std::string_view head, std::size_t limit) {
  std::string all(head);
  std::vector<char> piece(kPiece);
  while (all.size() <= limit) {
    const ssize_t more = ::read(fd, piece.data(), piece.size());
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) return all;
    all.append(piece.data(), static_cast<std::size_t>(more));
  }
  return std::nullopt;
}

// A flight-recorder dump as a log: who is stuck in what. A dump may be asked for at any time, so
// alone it is but a clue.
ScannedLog dump_as_log(const std::string& path, std::uint32_t place,
                       const std::optional<std::string>& bytes) {
  ScannedLog log;
  log.name = path;
  const PathOrigin origin = read_path_origin(path);
  log.node = origin.node;
  log.rank = origin.rank;
  if (!bytes) {
    log.notes.push_back("this dump is larger than 64 MiB and was left out");
    return log;
  }
  auto reports = read_flight_dump(*bytes, origin.rank.value_or(0), path);
  if (!reports) {
    log.notes.push_back("left out: " + reports.error().what);
    return log;
  }
  if (!origin.rank) log.notes.push_back("the name tells no rank; 0 is assumed");
  log.collectives = std::move(*reports);
  for (const CollectiveReport& r : log.collectives) {
    if (r.stuck_in < 0) continue;
    Finding f;
    f.failure_class = FailureClass::NcclTimeout;
    f.severity = Severity::Clue;
    f.confidence = 0.6;
    f.file = place;
    f.text = "collective " + std::to_string(r.stuck_in) + " " + r.operation + " of group " +
             r.group + " has not finished";
    f.ranks = {r.rank};
    f.node = origin.node;
    log.findings.push_back(std::move(f));
    break;
  }
  return log;
}

// What py-spy, faulthandler and stoker-agent write first.
bool is_stack_dump(std::string_view head) {
  head = head.substr(0, 4096);
  if (head.starts_with("Process ") && head.find("\nThread ") != std::string_view::npos) return true;
  if (head.starts_with("# stacks of ")) return true;
  const auto thread = head.find("hread 0x");
  return thread < 200 && head.find("(most recent call first)") < thread + 200;
}

Result<os::Fd> open_log(const std::string& path) {
  // Not blocking: opening a FIFO would wait for a writer that never comes.
  os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return fail(errno_error(errno, "cannot open", path));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return fail(errno_error(errno, "cannot look at", path));
  if (!S_ISREG(status.st_mode))
    return fail("is no regular file", path, "pipe it into `stoker diagnose -`");
  return fd;
}

}  // namespace

ScanDesk::ScanDesk(const Detector& detector) : sieve(detector.sieve()), piece(kPiece) {}

Result<ScannedLog> scan_file(const Detector& detector, const std::string& path, std::uint32_t place,
                             bool kernel_log) {
  ScanDesk desk(detector);
  return scan_file(detector, desk, path, place, kernel_log);
}

Result<ScannedLog> scan_file(const Detector& detector, ScanDesk& desk, const std::string& path,
                             std::uint32_t place, bool kernel_log) {
  os::Fd owned;
  int fd = STDIN_FILENO;
  if (path != "-") {
    STOKER_TRY(opened, open_log(path));
    owned = std::move(opened);
    fd = owned.get();
  }
  std::vector<char>& piece = desk.piece;
  std::size_t got = 0;
  while (got < 16) {  // enough to know the kind; a pipe may give less at once
    const ssize_t more = ::read(fd, piece.data() + got, piece.size() - got);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return fail(errno_error(errno, "cannot read", path));
    if (more == 0) break;
    got += static_cast<std::size_t>(more);
  }
  const std::string_view head(piece.data(), got);
  if (may_be_flight_dump(head)) {
    const auto bytes = read_whole(fd, head, kLargestDump);
    if (is_pickle(head) || (bytes && read_flight_dump(*bytes, 0, path)))
      return dump_as_log(path, place, bytes);
    return scan_text(detector, bytes.value_or(std::string(head)), path, place, kernel_log);
  }
  LogScanner scanner(detector, desk.sieve, path, place, kernel_log);
  Blocks blocks(scanner);
  std::string stacks;
  if (is_stack_dump(head)) stacks = std::string(head.substr(0, kLargestStacks));
  if (is_compressed({piece.data(), got}))
    read_compressed(fd, piece, got, blocks, scanner);
  else
    read_plain(fd, piece, got, blocks, scanner);
  blocks.finish();
  ScannedLog log = scanner.finish();
  log.stacks = std::move(stacks);
  return log;
}

ScannedLog scan_text(const Detector& detector, std::string_view text, const std::string& name,
                     std::uint32_t place, bool kernel_log) {
  LineSieve sieve = detector.sieve();
  LogScanner scanner(detector, sieve, name, place, kernel_log);
  Blocks blocks(scanner);
  for (; !text.empty(); text.remove_prefix(std::min(kPiece, text.size())))
    blocks.piece(text.substr(0, kPiece));
  blocks.finish();
  return scanner.finish();
}

}  // namespace stoker::diagnose
