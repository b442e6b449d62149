// LineFile: lines of a file that may be a gigabyte and may grow: the last N by seeking from the
// end, backwards until enough is found, forwards from an offset, and on from there. Nothing is ever
// read whole; a line longer than kMaxLine comes in pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace stoker::cli {

class LineFile {
 public:
  static constexpr std::size_t kMaxLine = 1u << 20;
  static constexpr std::uint64_t kLookBack = 8u << 20;
  // Return false to stop.
  using Visit = std::function<bool(std::string_view line)>;

  // A regular file only.
  static Result<LineFile> open(const std::string& path);

  [[nodiscard]] std::uint64_t size() const;  // now
  [[nodiscard]] const std::string& path() const { return path_; }

  // Offset where the last `count` lines begin. An unfinished last line counts. Looks back kLookBack
  // at most: what is one line of gigabytes begins there.
  [[nodiscard]] Result<std::uint64_t> start_of_last(std::uint64_t count) const;

  // Visits the lines from `offset`, which begins a line, to the end. With `unfinished`, a last line
  // without newline too. Leaps over holes. Returns the offset behind what was visited.
  Result<std::uint64_t> forward(std::uint64_t offset, bool unfinished, const Visit& visit) const;

  // Visits the finished lines from the end to the beginning, or to kLookBack bytes without a
  // newline.
  Status backward(const Visit& visit) const;

  // Offset of the first line that is not `before`, in a file ordered by it; lines that `before`
  // cannot judge are to be answered with true.
  [[nodiscard]] Result<std::uint64_t> partition_point(const Visit& before) const;

  // The file at `path` is another one now, or shorter than `offset`: it was replaced.
  [[nodiscard]] bool replaced(std::uint64_t offset) const;

 private:
  LineFile(os::Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  // Where data goes on behind a hole that `offset` lies in; else `offset`.
  [[nodiscard]] std::uint64_t behind_hole(std::uint64_t offset) const;
  [[nodiscard]] Result<std::string> block(std::uint64_t offset, std::size_t bytes) const;

  os::Fd fd_;
  std::string path_;
};

}  // namespace stoker::cli
