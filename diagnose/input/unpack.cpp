// zlib, libzstd, liblzma, libbz2 and liblz4 behind one loop.
#include "diagnose/input/unpack.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bzlib.h>
#include <lz4frame.h>
#include <lzma.h>
#include <utility>
#define ZLIB_CONST  // next_in points to const
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "common/check.hpp"

namespace stoker::diagnose {

namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kMostMemory = 256u << 20;
// Of all files that are unpacked at once: `stoker replay` reads those of a folder side by side.
constexpr std::uint64_t kMostOfAll = 2ull << 30;
std::atomic<std::uint64_t> held_by_all = 0;  // NOLINT

// What libraries hold that cannot be asked: gzip's window, bzip2's and lz4's largest blocks.
constexpr std::uint64_t kGzipHolds = 64u << 10, kBzip2Holds = 4u << 20, kLz4Holds = 10u << 20;

// What one decompressor holds.
class Share {
 public:
  Share() = default;
  ~Share() { held_by_all -= held_; }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  // False: all of them hold too much now.
  bool grow_to(std::uint64_t bytes) {
    if (bytes <= held_) return true;
    held_by_all += bytes - std::exchange(held_, bytes);
    return held_by_all <= kMostOfAll;
  }

 private:
  std::uint64_t held_ = 0;
};
constexpr int kGzipOnly = 16 + MAX_WBITS;

// A frame of zstd or lz4 that is to be skipped.
bool is_skippable(std::uint8_t byte) {
  return (byte & 0xf0u) == 0x50;
}

// zlib, liblzma and libbz2 count alike.
template <typename Stream>
void lend(Stream& stream, std::string_view in, std::span<char> out) {
  stream.next_in = reinterpret_cast<decltype(stream.next_in)>(const_cast<char*>(in.data()));
  stream.avail_in = static_cast<decltype(stream.avail_in)>(in.size());
  stream.next_out = reinterpret_cast<decltype(stream.next_out)>(out.data());
  stream.avail_out = static_cast<decltype(stream.avail_out)>(out.size());
}

template <typename Stream>
void take_back(const Stream& stream, std::string_view& in, std::span<char>& out) {
  in.remove_prefix(in.size() - stream.avail_in);
  out = out.last(stream.avail_out);
}

class Gzip final : public Unpacker {
 public:
  explicit Gzip(Source source)
      : Unpacker(std::move(source), [](std::uint8_t byte) { return byte == 0x1f; }) {
    STOKER_CHECK(inflateInit2(&stream_, kGzipOnly) == Z_OK, "inflateInit2");
  }
  ~Gzip() override { inflateEnd(&stream_); }

 private:
  Step step(std::string_view& in, std::span<char>& out) override {
    if (!share_.grow_to(kGzipHolds)) return Step::TooLarge;
    lend(stream_, in, out);
    const int done = inflate(&stream_, Z_NO_FLUSH);
    take_back(stream_, in, out);
    if (done == Z_STREAM_END) return Step::MemberEnd;
    return done == Z_OK || done == Z_BUF_ERROR ? Step::Going : Step::Damaged;
  }
  void begin_member() override { inflateReset(&stream_); }

  z_stream stream_{};
  Share share_;
};

class Xz final : public Unpacker {
 public:
  explicit Xz(Source source)
      : Unpacker(std::move(source), [](std::uint8_t byte) { return byte == 0xfd; }) {
    begin_member();
  }
  ~Xz() override { lzma_end(&stream_); }

 private:
  Step step(std::string_view& in, std::span<char>& out) override {
    lend(stream_, in, out);
    const lzma_ret done = lzma_code(&stream_, LZMA_RUN);
    take_back(stream_, in, out);
    if (!share_.grow_to(lzma_memusage(&stream_))) return Step::TooLarge;
    if (done == LZMA_STREAM_END) return Step::MemberEnd;
    if (done == LZMA_MEMLIMIT_ERROR || done == LZMA_MEM_ERROR) return Step::TooLarge;
    return done == LZMA_OK || done == LZMA_BUF_ERROR ? Step::Going : Step::Damaged;
  }
  void begin_member() override {
    STOKER_CHECK(lzma_stream_decoder(&stream_, kMostMemory, 0) == LZMA_OK, "lzma_stream_decoder");
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
  Share share_;
};

class Bzip2 final : public Unpacker {
 public:
  explicit Bzip2(Source source)
      : Unpacker(std::move(source), [](std::uint8_t byte) { return byte == 'B'; }) {
    open();
  }
  ~Bzip2() override { BZ2_bzDecompressEnd(&stream_); }

 private:
  Step step(std::string_view& in, std::span<char>& out) override {
    if (!share_.grow_to(kBzip2Holds)) return Step::TooLarge;
    lend(stream_, in, out);
    const int done = BZ2_bzDecompress(&stream_);
    take_back(stream_, in, out);
    if (done == BZ_STREAM_END) return Step::MemberEnd;
    return done == BZ_OK ? Step::Going : Step::Damaged;
  }
  void begin_member() override {
    BZ2_bzDecompressEnd(&stream_);
    open();
  }
  void open() {
    stream_ = {};
    STOKER_CHECK(BZ2_bzDecompressInit(&stream_, 0, 0) == BZ_OK, "BZ2_bzDecompressInit");
  }

  bz_stream stream_{};
  Share share_;
};

class Zstd final : public Unpacker {
 public:
  explicit Zstd(Source source)
      : Unpacker(std::move(source),
                 [](std::uint8_t byte) { return byte == 0x28 || is_skippable(byte); }),
        stream_(ZSTD_createDStream()) {
    STOKER_CHECK(stream_ != nullptr, "ZSTD_createDStream");
  }
  ~Zstd() override { ZSTD_freeDStream(stream_); }

 private:
  Step step(std::string_view& in, std::span<char>& out) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t left = ZSTD_decompressStream(stream_, &to, &from);
    in.remove_prefix(from.pos);
    out = out.subspan(to.pos);
    if (!share_.grow_to(ZSTD_sizeof_DStream(stream_))) return Step::TooLarge;
    if (left == 0) return Step::MemberEnd;  // and the library begins the next one by itself
    if (ZSTD_isError(left) == 0) return Step::Going;
    const ZSTD_ErrorCode why = ZSTD_getErrorCode(left);
    return why == ZSTD_error_frameParameter_windowTooLarge || why == ZSTD_error_memory_allocation
               ? Step::TooLarge
               : Step::Damaged;
  }

  Share share_;
  ZSTD_DStream* stream_;  // its window: 128 MiB at most, libzstd's own limit
};

class Lz4 final : public Unpacker {
 public:
  explicit Lz4(Source source)
      : Unpacker(std::move(source),
                 [](std::uint8_t byte) { return byte == 0x04 || is_skippable(byte); }) {
    STOKER_CHECK(LZ4F_isError(LZ4F_createDecompressionContext(&stream_, LZ4F_VERSION)) == 0,
                 "LZ4F_createDecompressionContext");
  }
  ~Lz4() override { LZ4F_freeDecompressionContext(stream_); }

 private:
  Step step(std::string_view& in, std::span<char>& out) override {
    if (!share_.grow_to(kLz4Holds)) return Step::TooLarge;
    std::size_t used = in.size(), made = out.size();
    const std::size_t left = LZ4F_decompress(stream_, out.data(), &made, in.data(), &used, nullptr);
    if (LZ4F_isError(left) != 0) return Step::Damaged;
    in.remove_prefix(used);
    out = out.subspan(made);
    return left == 0 ? Step::MemberEnd : Step::Going;  // it begins the next one by itself
  }

  LZ4F_dctx* stream_ = nullptr;
  Share share_;
};

}  // namespace

Packing packing_of(std::string_view head) {
  static constexpr std::array kMagics{
      std::pair{"\x1f\x8b"sv, Packing::Gzip}, std::pair{"\x28\xb5\x2f\xfd"sv, Packing::Zstd},
      std::pair{"\xfd"
                "7zXZ\0"sv,
                Packing::Xz},
      std::pair{"BZh"sv, Packing::Bzip2}, std::pair{"\x04\x22\x4d\x18"sv, Packing::Lz4}};
  for (const auto& [magic, packing] : kMagics)
    if (head.starts_with(magic)) return packing;
  // pzstd begins so.
  const bool skippable = head.size() >= 4 && is_skippable(static_cast<std::uint8_t>(head[0])) &&
                         head.substr(1, 3) == "\x2a\x4d\x18"sv;
  return skippable ? Packing::Zstd : Packing::None;
}

std::unique_ptr<Unpacker> Unpacker::make(Packing packing, Source source) {
  switch (packing) {
    case Packing::Gzip: return std::make_unique<Gzip>(std::move(source));
    case Packing::Zstd: return std::make_unique<Zstd>(std::move(source));
    case Packing::Xz: return std::make_unique<Xz>(std::move(source));
    case Packing::Bzip2: return std::make_unique<Bzip2>(std::move(source));
    case Packing::Lz4: return std::make_unique<Lz4>(std::move(source));
    case Packing::None: break;
  }
  STOKER_CHECK(false, "an unpacker of plain text");
  return nullptr;
}

bool Unpacker::refill() {
  if (in_.empty() && !drained_) in_ = source_();
  drained_ = drained_ || in_.empty();
  return !in_.empty();
}

// Padding of a tape or a block device is passed over; what else follows is no part of the log.
void Unpacker::look_for_member() {
  in_.remove_prefix(std::min(in_.find_first_not_of('\0'), in_.size()));
  if (in_.empty() && !drained_) return;
  if (drained_ || !begins_(static_cast<std::uint8_t>(in_.front()))) {
    end_ = End::Clean;
    return;
  }
  begin_member();
  between_ = false;
}

std::size_t Unpacker::read(std::span<char> room) {
  std::span<char> out = room;
  while (!out.empty() && end_ == End::NotYet) {
    const bool more = refill();
    if (between_) {
      look_for_member();
      continue;
    }
    const std::size_t before = in_.size() + out.size();
    const Step done = step(in_, out);
    between_ = done == Step::MemberEnd;
    if (done == Step::Damaged) end_ = End::Damaged;
    if (done == Step::TooLarge) end_ = End::TooLarge;
    if (done == Step::Going && in_.size() + out.size() == before)
      end_ = more ? End::Damaged : End::Truncated;
  }
  return room.size() - out.size();
}

}  // namespace stoker::diagnose
