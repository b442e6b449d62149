// LogReader: the lines of one log, plain, packed (.gz, .zst, .xz, .bz2, .lz4: detected by content,
// not by name) or a journald export, in blocks of whole lines that are asked for one by one. A line
// over 1 MiB is cut there. What goes wrong halfway becomes a note, and what was read counts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace stoker::diagnose {

// Which links on the way to a log are followed: all of a path that a person named; of one that was
// found in a folder none of other users, who could lead it to a private file (os::open_on_way).
enum class Links : bool { All, Trusted };

class LogReader {
 public:
  // "-" is standard input. Errors: the file cannot be opened, or it is no regular file (a FIFO or
  // device would block; only standard input may be one). `room`: of a reader that is done, so that
  // many files are read into the same memory.
  static Result<LogReader> open(const std::string& path, std::vector<char> room = {},
                                Links links = Links::All);
  std::vector<char> take_room();  // and read no more
  static LogReader of_text(std::string text);
  LogReader(LogReader&&) noexcept;
  LogReader& operator=(LogReader&&) noexcept;
  ~LogReader();

  // The first bytes as stored, 16 at least where there are as many. Before the first next().
  [[nodiscard]] std::string_view head() const;
  [[nodiscard]] bool packed() const;  // then head() is no text. Before the first next().
  // The whole file as stored; empty: it is larger than `limit`. Instead of next().
  std::optional<std::string> stored(std::size_t limit);

  // The next whole lines, the last one perhaps without its newline; valid until the next call.
  // Empty: the end.
  std::string_view next();
  [[nodiscard]] const std::vector<std::string>& notes() const;

 private:
  struct Impl;
  explicit LogReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker::diagnose
