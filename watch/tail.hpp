// LineTail: follows one growing file and hands out whole lines, each with the cursor that stands
// behind it. The cursor is stored in the same transaction as what was made of the line, so a reader
// that dies at any instruction goes on exactly there: nothing is lost, nothing comes twice.
// * identity: inode and XXH3 of the first min(offset, 1 KiB) bytes
// * rotation: a renamed file is read to its end and a grace longer, then its successor from 0
// * truncation (smaller than the offset, or other bytes there): the rest is taken from the copy
//   that `copytruncate` left beside it where that can be proven, then from 0; flagged
// * either of them, also several times, between two polls: found beside the path, in their order
// * opened again at each poll: on network file systems only open(2) revalidates
// * a line ends at '\n' or '\r'; a partial last line is held; over the cap it is split; NULs
// (holes)
//   are dropped and counted, on network file systems after a grace, for the data may follow
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/time.hpp"
#include "core/engine/journal.hpp"
#include "watch/tail_source.hpp"

namespace stoker::watch {

struct TailOptions {
  std::size_t longest_line = 1u << 20;
  std::size_t bytes_a_poll = 4u << 20;  // bounds what one poll returns
  Duration rotate_grace = 5s;           // a renamed file is read this long after its last growth
  Duration hole_grace = 0s;             // 5s on network file systems
  bool from_end = false;                // without a cursor: skip what is there at the first poll
  bool of_system = false;               // only a file that is_of_system(); another's is an error
};

struct TailLine {
  std::string text;          // without its end and without NULs
  std::uint64_t number = 0;  // from 1, as an editor counts
  core::Cursor cursor;       // behind this line; parser_state is empty
  bool split = false;        // cut at the cap: the rest follows as further lines
};

struct TailRead {
  std::vector<TailLine> lines;
  bool restarted = false;  // truncated or replaced: read again from its beginning
  bool missing = false;    // there is no such file (yet)
  bool more = false;       // stopped at bytes_a_poll
  std::uint64_t hole_bytes = 0;
  std::optional<Error> error;  // cannot be opened or read; tried again at the next poll
};

// Not thread-safe; may block in open(2) and read(2).
class LineTail {
 public:
  // `cursor`: where to go on; empty = from the beginning.
  explicit LineTail(std::string path, TailOptions options = {},
                    std::optional<core::Cursor> cursor = {});

  TailRead poll(Instant now);
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] core::Cursor cursor() const;  // behind the last line handed out

 private:
  struct Piece {
    std::size_t length = 0, end = 0;  // of the text, and with its line end
    bool newline = false;
  };
  void resume(OpenedFile file, TailRead& out);
  void resume_renamed();
  void go_on(OpenedFile file, TailRead& out);
  void start_file(OpenedFile file, std::uint64_t offset, std::uint64_t line);
  void start_rotated(OpenedFile file, OpenedFile now, const core::Cursor& cursor);
  bool is_another_content(const OpenedFile& file) const;
  bool take_copy(OpenedFile& current);
  void read_file(TailRead& out, Instant now);
  bool read_piece(TailRead& out, Instant now, std::size_t& budget);
  std::size_t take_lines(std::string_view bytes, TailRead& out, Instant now);
  bool waits_for_hole(Instant now);
  void hand_out(std::string_view bytes, const Piece& piece, bool split, TailRead& out);
  void pass(std::string_view bytes);
  bool switch_to_successor(TailRead& out, Instant now);
  void leap_over_hole(std::size_t zeros, TailRead& out);

  std::string path_;
  TailOptions options_;
  std::optional<core::Cursor> waiting_;  // a cursor that waits for its file
  bool looked_beside_ = false;           // for a renamed file without a successor
  OpenedFile file_;
  std::uint64_t offset_ = 0, line_ = 0;
  std::string head_;    // the first min(offset_, 1 KiB) bytes
  std::string before_;  // the last bytes before offset_, at most 256
  bool after_cr_ = false;
  bool is_copy_ = false;               // file_ is complete: no grace
  std::deque<OpenedFile> successors_;  // files that took the path since, oldest first
  std::uint64_t read_size_ = 0;        // file_'s size and mtime when it was read to its end
  std::int64_t read_mtime_ = -1;
  std::optional<Instant> quiet_since_, hole_since_;
};

}  // namespace stoker::watch
