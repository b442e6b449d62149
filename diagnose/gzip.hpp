// GzipReader: gzip members one after the other, as gzip, pigz and logrotate write them. What is
// intact in front of a cut or of damage is given (libarchive drops its last 64 KiB there).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

struct z_stream_s;

namespace stoker::diagnose {

class GzipReader {
 public:
  // The next stored bytes, valid until it is asked again; empty: the end.
  using Source = std::function<std::string_view()>;
  explicit GzipReader(Source source);
  ~GzipReader();

  enum class End { NotYet, Clean, Truncated, Damaged };
  // Fills as much of `room` as there is. Less than all of it: the end, and end() tells which.
  std::size_t read(std::span<char> room);
  [[nodiscard]] End end() const { return end_; }

 private:
  bool refill();
  Source source_;
  std::unique_ptr<z_stream_s> stream_;
  bool between_ = false;  // members
  End end_ = End::NotYet;
};

}  // namespace stoker::diagnose
