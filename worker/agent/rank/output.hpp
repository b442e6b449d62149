// What ranks print, as bytes: split into lines, and judged for block buffering. Hostile input: any
// bytes, no newline ever, progress bars. Pure; times are arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/time.hpp"

namespace stoker::agent {

inline constexpr std::size_t kLineLimit = 1u << 20;

// Splits at \n, \r and \r\n. NUL and all other bytes are kept. A line longer than `limit` is cut
// there and goes on as the next line (counted).
class LineSplitter {
 public:
  using Sink = std::function<void(std::string_view line)>;  // without its separator
  explicit LineSplitter(std::size_t limit = kLineLimit) : limit_(limit) {}

  void feed(std::string_view bytes, const Sink& sink);
  void finish(const Sink& sink);  // the end: what was begun is a line too
  [[nodiscard]] std::uint64_t cut() const { return cut_; }

 private:
  std::size_t limit_;
  std::string pending_;
  bool after_return_ = false;
  std::uint64_t cut_ = 0;
};

// Output that only ever arrives in whole blocks of 4096 bytes, cut inside lines, with gaps of a
// second and more, comes from a block-buffered stream (C's stdio: 4096; Python: 8192): what is seen
// is old. A verdict after three such blocks in a row.
class BufferingDetector {
 public:
  void feed(std::string_view bytes, Instant now);
  [[nodiscard]] bool block_buffered() const { return blocks_ >= 3 && cut_inside_; }

 private:
  void end_burst();
  Instant last_{};
  std::size_t burst_ = 0;
  char last_byte_ = '\n';
  bool gap_before_ = false;
  int blocks_ = 0;
  bool cut_inside_ = false;
};

}  // namespace stoker::agent
