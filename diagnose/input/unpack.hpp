// Unpacker: undoes one compression, one layer of it, for streams of several members as gzip, pigz,
// xz -T, pzstd and logrotate write them. What is intact in front of a cut or of damage is given; of
// a cut .zst, .bz2 or .lz4 that is up to its last whole block (128 KiB, 900 KB, 4 MiB of text at
// most are in one), of .gz and .xz up to the last byte.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace stoker::diagnose {

enum class Packing : std::uint8_t { None, Gzip, Zstd, Xz, Bzip2, Lz4 };

// By the first bytes, never by a name. `head`: 6 bytes at least, where there are as many.
Packing packing_of(std::string_view head);

class Unpacker {
 public:
  // The next stored bytes, valid until it is asked again; empty: the end.
  using Source = std::function<std::string_view()>;
  // `packing` is not None. It takes 256 MiB of memory at most.
  static std::unique_ptr<Unpacker> make(Packing packing, Source source);
  virtual ~Unpacker() = default;
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  // TooLarge: its window needs more memory than that.
  enum class End : std::uint8_t { NotYet, Clean, Truncated, Damaged, TooLarge };
  // Fills as much of `room` as there is. Less than all of it: the end, and end() says which.
  std::size_t read(std::span<char> room);
  [[nodiscard]] End end() const { return end_; }

 protected:
  // `begins`: whether a further member may begin with this byte.
  Unpacker(Source source, bool (*begins)(std::uint8_t))
      : source_(std::move(source)), begins_(begins) {}
  enum class Step : std::uint8_t { Going, MemberEnd, Damaged, TooLarge };
  // Takes from the front of `in` and fills the front of `out`, both shortened by what was used.
  virtual Step step(std::string_view& in, std::span<char>& out) = 0;
  virtual void begin_member() {}

 private:
  bool refill();
  void look_for_member();
  Source source_;
  bool (*begins_)(std::uint8_t);
  std::string_view in_;
  bool drained_ = false, between_ = false;  // between two members
  End end_ = End::NotYet;
};

}  // namespace stoker::diagnose
